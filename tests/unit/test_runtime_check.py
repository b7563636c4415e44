# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`check()`, `stats()` and recorded size errors, as far as a host alone shows them."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.bad_sizes import HOST_ERRORS, M, assert_reported, each_bad_size
from support.messages import raises_text
from support.operands import MODES, random_operands
from support.platforms import is_cuda
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg import _ffi
from graphsafe_gg.api.call_site import call_site

modes = pytest.mark.parametrize("mode", MODES)


def test_runtime_check_without_errors(device):
    check_products(random_operands([3, 5], 8, 4, 8))
    assert gg.check() is None


def test_runtime_check_raises_every_record(monkeypatch):
    """One line for each device and call site."""
    lines = ["device 0: a", "device 1: b"]
    monkeypatch.setattr(_ffi, "take_size_errors", lambda site: lines)
    with raises_text(gg.GroupSizesError, "device 0: a\ndevice 1: b"):
        gg.check()


def test_runtime_recorded_error_meets_the_next_call_of_its_site(monkeypatch):
    """The next eager or traced call raises what its own site recorded, once."""
    operands = random_operands([3, 5], 8, 4, 8)[:3]
    records = {call_site("bad") % 2**64: ["device 0: grouped_gemm: bad"]}
    monkeypatch.setattr(_ffi, "take_size_errors", lambda site: records.pop(site, []))
    gg.grouped_gemm(*operands, name="good")
    with raises_text(gg.GroupSizesError, "device 0: grouped_gemm: bad"):
        gg.grouped_gemm(*operands, name="bad")
    gg.grouped_gemm(*operands, name="bad")


def test_runtime_group_sizes_error_is_a_value_error():
    assert issubclass(gg.GroupSizesError, ValueError)


def test_runtime_call_site_is_a_stable_id():
    """The id is in compiled programs and caches: it must not change with a release."""
    assert call_site("grouped_gemm") == -5185546273884450251
    assert call_site("a") != call_site("b")


def test_runtime_program_holds_no_name_and_no_path():
    """Equal programs at other lines, under other file names, are the same program."""
    operands = random_operands([3, 5], 8, 4, 8)
    source = "lambda *a: gg.grouped_gemm(*a, name='layer7')"
    texts = set()
    for file_name, padding in (("one.py", ""), ("two.py", "\n\n\n")):
        code = compile(padding + source, file_name, "eval")
        function = eval(code, {"gg": gg})
        texts.add(jax.jit(function).lower(*operands[:3]).as_text())
    (text,) = texts
    assert "layer7" not in text


@each_bad_size
@modes
def test_runtime_bad_call_leaves_other_sites_alone(device, mode, bad):
    """A good call of another site runs and is right, before check() and after."""
    operands = random_operands(np.array(bad.sizes, np.int32), M, 12, 20)
    good = random_operands([8, 8, 8, 8], M, 12, 20)
    truth = truth_of(good)

    def bad_call():
        result = run_products(*operands, mode=mode, name="test.bad_site")
        jax.block_until_ready(result)
        products = run_products(*good, mode=mode, name="test.good_site")
        assert_products_close(products, truth)
        eager = gg.grouped_gemm(*good[:3], mode=mode, name="test.good_site")
        np.testing.assert_array_equal(eager, products.out)
        return result

    assert_reported(device, mode, bad, "test.bad_site", bad_call)
    products = run_products(*good, mode=mode, name="test.good_site")
    assert_products_close(products, truth)


def test_runtime_bad_sizes_arrive_as_one_of_two_exceptions():
    """Both hold the same text; which one it is depends on where JAX notices."""
    cpu = jax.devices("cpu")[0]
    operands = jax.device_put(random_operands([8, 8, 8, 8], M, 12, 20), cpu)
    bad = np.array([8, -8, 8, 8], np.int32)
    call = jax.jit(lambda lhs, rhs, sizes: gg.grouped_gemm(lhs, rhs, sizes, name="two"))
    texts = set()
    for _ in range(4):
        with pytest.raises(HOST_ERRORS) as info:
            jax.block_until_ready(call(*operands[:2], bad))
        assert not isinstance(info.value, gg.GroupSizesError)
        texts.add(str(info.value))
    assert texts == {
        "INVALID_ARGUMENT: grouped_gemm: group_sizes[1] must be >= 0; got -8 "
        "(call site two). Drop rows without a group, such as expert id -1, before "
        "counting."
    }


def test_runtime_stats_has_devices_config_and_build(device):
    check_products(random_operands([3, 5], 8, 4, 8))
    stats = gg.stats()
    assert set(stats) == {"devices", "config", "build"}
    assert stats["build"]["version"] == gg.__version__
    assert stats["config"]["GG_ON_BAD_SIZES"] in ("log", "raise", "check")
    if is_cuda(device):
        assert stats["devices"][device.id]["launches"] > 0
    elif jax.default_backend() == "cpu":
        assert stats["devices"] == {}


@modes
def test_runtime_threads_share_a_function(device, mode):
    """Six threads call one compiled function, each with its own sizes."""
    num_threads, num_calls = 6, 25
    rng = np.random.default_rng(0)
    cases = []
    for seed in range(num_threads):
        sizes = rng.multinomial(96, rng.dirichlet(np.ones(8)))
        operands = random_operands(sizes, 96, 24, 40, jnp.bfloat16, seed=seed)
        cases.append((jax.device_put(operands, device), truth_of(operands)))
    run_products(*cases[0][0], mode=mode)  # compiles
    failures = []
    barrier = threading.Barrier(num_threads)

    def work(operands, truth):
        barrier.wait()
        try:
            held = [run_products(*operands, mode=mode) for _ in range(num_calls)]
            for products in held:
                assert_products_close(products, truth)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=case) for case in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


@modes
def test_runtime_errors_reach_their_own_thread(device, mode):
    """Good and bad calls in flight together: only the bad ones fail."""
    if is_cuda(device) and mode in ("device", "auto"):
        pytest.skip("device mode raises nothing at the call: tests/gpu covers it")
    good = random_operands([8, 8, 8, 8], M, 12, 20)
    bad = good._replace(group_sizes=np.array([8, -8, 8, 8], np.int32))
    truth = truth_of(good)
    run_products(*good, mode=mode)
    failures = []

    def work(operands, is_bad):
        try:
            on_device = jax.device_put(operands, device)
            for _ in range(20):
                if is_bad:
                    with pytest.raises(HOST_ERRORS, match="must be >= 0"):
                        jax.block_until_ready(run_products(*on_device, mode=mode))
                else:
                    assert_products_close(run_products(*on_device, mode=mode), truth)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(bad if i % 2 else good, bool(i % 2)))
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
