# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Bad sizes in mode device: cut, recorded per call site, raised when asked for."""

import jax
import numpy as np
import pytest
from support.bad_sizes import BAD_SIZES, HOST_ERRORS, M, each_bad_size
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import assert_products_close, truth_of
from support.recording import device_call as device_call
from support.recording import recorded

import graphsafe_gg as gg
from graphsafe_gg import _ffi

pytestmark = pytest.mark.gpu

GOOD = random_operands([8, 8, 8, 8], M, 12, 20)
NEGATIVE, ABOVE = BAD_SIZES["negative"], BAD_SIZES["sum_above_m"]


def with_sizes(sizes):
    return GOOD._replace(group_sizes=np.array(sizes, np.int32))


@each_bad_size
def test_device_bad_sizes_are_cut_at_every_replay(device, device_call, bad):
    """Eager, captured and replayed: the rows that exist are right, the rest is zero."""
    truth = truth_of(with_sizes(bad.cut))
    site = "bad.replay"
    for call in range(5):
        products = device_call(with_sizes(bad.sizes), site)
        assert_products_close(products, truth, f"call {call}: ")
        with pytest.raises(gg.GroupSizesError, match=recorded(device, bad.rule, site)):
            gg.check()
    assert_products_close(device_call(GOOD, site), truth_of(GOOD))


def test_device_bad_sizes_first_error_is_kept(device, device_call):
    """Of many bad executions, check() tells the first, once."""
    site = "bad.first"
    jax.block_until_ready(device_call(with_sizes(NEGATIVE.sizes), site))
    for bad in (ABOVE, NEGATIVE, ABOVE):
        jax.block_until_ready(device_call(with_sizes(bad.sizes), site))
    with pytest.raises(gg.GroupSizesError) as info:
        gg.check()
    assert str(info.value).count("\n") == 0
    assert NEGATIVE.rule in str(info.value)
    gg.check()


def test_device_bad_sizes_of_two_sites(device, device_call):
    """One line for each site; the records do not mix."""
    device_call(with_sizes(NEGATIVE.sizes), "bad.one")
    device_call(with_sizes(ABOVE.sizes), "bad.two")
    with pytest.raises(gg.GroupSizesError) as info:
        gg.check()
    lines = str(info.value).splitlines()
    assert len(lines) == 2
    text = {line.split("call site ")[1].split(")")[0]: line for line in lines}
    assert NEGATIVE.rule in text["bad.one"]
    assert ABOVE.rule in text["bad.two"]


def test_device_bad_sizes_leave_other_sites_alone(device, device_call):
    """Good calls of other sites are right while a record is waiting."""
    truth = truth_of(GOOD)
    jax.block_until_ready(device_call(with_sizes(NEGATIVE.sizes), "bad.here"))
    for _ in range(5):
        assert_products_close(device_call(GOOD, "bad.elsewhere"), truth)
        out = gg.grouped_gemm(*GOOD[:3], mode="device", name="bad.eager_elsewhere")
        np.testing.assert_array_equal(out, device_call(GOOD, "bad.elsewhere").out)
    with pytest.raises(
        gg.GroupSizesError, match=recorded(device, NEGATIVE.rule, "bad.here")
    ):
        gg.check()


def test_device_bad_sizes_meet_the_next_eager_call(device, device_call):
    """The next call of the site that runs Python raises, and the one after works."""
    site = "bad.next"
    jax.block_until_ready(device_call(with_sizes(ABOVE.sizes), site))
    with pytest.raises(gg.GroupSizesError, match=recorded(device, ABOVE.rule, site)):
        gg.grouped_gemm(*GOOD[:3], mode="device", name=site)
    out = gg.grouped_gemm(*GOOD[:3], mode="device", name=site)
    np.testing.assert_array_equal(out, device_call(GOOD, site).out)


def test_device_bad_sizes_meet_the_next_trace(device, device_call):
    site = "bad.trace"
    jax.block_until_ready(device_call(with_sizes(ABOVE.sizes), site))
    with pytest.raises(gg.GroupSizesError, match=recorded(device, ABOVE.rule, site)):
        jax.jit(lambda *a: gg.grouped_gemm(*a, name=site)).lower(*GOOD[:3])


def test_device_bad_sizes_are_logged_once(device, device_call, capfd):
    """Under replay the first execution after a record says so on stderr, once."""
    site = "bad.logged"
    capfd.readouterr()
    for _ in range(4):
        jax.block_until_ready(device_call(with_sizes(NEGATIVE.sizes), site))
    lines = [line for line in capfd.readouterr().err.splitlines() if site in line]
    if is_cuda(device):
        assert len(lines) == 1
        assert f"graphsafe_gg: grouped_gemm: {NEGATIVE.rule}" in lines[0]
    with pytest.raises(gg.GroupSizesError):
        gg.check()


@pytest.fixture
def on_bad_sizes():
    yield _ffi._ext.set_on_bad_sizes
    _ffi._ext.set_on_bad_sizes("log")


def test_device_bad_sizes_raise_under_replay(device, device_call, on_bad_sizes):
    """With policy "raise" the execution after a record fails, and the next works."""
    on_bad_sizes("raise")
    site = "bad.raise"
    truth = truth_of(GOOD)
    for _ in range(3):
        assert_products_close(device_call(GOOD, site), truth)
    jax.block_until_ready(device_call(with_sizes(NEGATIVE.sizes), site))
    if is_cuda(device):
        with pytest.raises(
            HOST_ERRORS, match=r"group_sizes\[1\] must be >= 0; got -16"
        ):
            jax.block_until_ready(device_call(GOOD, site))
    else:
        with pytest.raises(gg.GroupSizesError):
            gg.check()
    for _ in range(3):
        assert_products_close(device_call(GOOD, site), truth)


def test_device_bad_sizes_are_silent_if_asked(device, device_call, on_bad_sizes, capfd):
    """With the policy "check" nothing is printed; check() still raises."""
    on_bad_sizes("check")
    site = "bad.silent"
    capfd.readouterr()
    for _ in range(4):
        jax.block_until_ready(device_call(with_sizes(NEGATIVE.sizes), site))
    assert site not in capfd.readouterr().err
    with pytest.raises(gg.GroupSizesError, match=recorded(device, NEGATIVE.rule, site)):
        gg.check()


def test_device_bad_sizes_random_words_at_replay(device, device_call):
    """300 draws of any bits, replayed back to back: no fault, good calls stay so."""
    rng = np.random.default_rng(0)
    truth = truth_of(GOOD)
    site = "bad.words"
    for draw in range(300):
        words = rng.integers(-(2**31), 2**31, 4).astype(np.int32)
        words[rng.random(4) < 0.5] %= 16
        device_call(with_sizes(words), site)
        if draw % 100 == 99:
            assert_products_close(device_call(GOOD, "bad.words.good"), truth)
    with pytest.raises(gg.GroupSizesError):
        gg.check()
    assert_products_close(device_call(GOOD, site), truth)
