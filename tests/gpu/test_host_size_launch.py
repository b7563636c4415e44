# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Sync and async calls through per-group cuBLASLt: values, zeros, bits, the guard."""

import concurrent.futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, poison_tail, random_operands
from support.platforms import is_cuda
from support.products import (
    assert_products_bit_equal,
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg import _config, _ffi
from graphsafe_gg.api.call_site import call_site
from graphsafe_gg.api.lowering import ticket_words
from graphsafe_gg.api.operands import OptionalOperands
from graphsafe_gg.testing import assert_close, dirty_memory, reference_grouped_gemm

pytestmark = pytest.mark.gpu
HOST_MODES = pytest.mark.parametrize("mode", ["sync", "async"])

# (sizes, m): few and large, ragged, empties at the ends and inside, tails, nothing.
PATTERNS = {
    "few_large": ([1024, 640, 1300], None),
    "one_group": ([777], None),
    "ragged": ([1, 2, 3, 513, 255, 257, 31, 1000], None),
    "empties": ([0, 300, 0, 0, 129, 0], None),
    "tail": ([64, 0, 129], 300),
    "all_empty": ([0, 0, 0], 40),
    "many": ([17] * 24 + [0] * 8, 512),
    "no_rows": ([0, 0], 0),
}


@pytest.fixture
def wherever_possible():
    """cuBLASLt for every call that it can serve, whatever the policy advises."""
    _ffi.set_cublaslt_use("always")
    yield
    _ffi.set_cublaslt_use(_config.CUBLASLT)


def site_stats(name, device):
    assert gg.stats()["devices"], "no device has run a call"
    (entry,) = (d for d in gg.stats()["devices"].values() if name in d["sites"])
    return entry["sites"][name] | {"cublaslt": entry["cublaslt"]}


def assert_launched_by_cublaslt(name, device, num_calls):
    if not is_cuda(device):
        return
    stats = site_stats(name, device)
    assert stats["host_size_launches"] == {"cublaslt": num_calls}, stats
    assert stats["guards_tripped"] == 0


@HOST_MODES
@pytest.mark.parametrize("transpose_rhs", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_host_size_launch_values(
    device, wherever_possible, pattern, dtype, transpose_rhs, mode
):
    sizes, m = PATTERNS[pattern]
    name = f"{pattern}/{jnp.dtype(dtype)}/{transpose_rhs}/{mode}"
    operands = random_operands(sizes, m, 72, 136, dtype, transpose_rhs=transpose_rhs)
    dirty_memory(device)
    check_products(
        poison_tail(operands), mode=mode, transpose_rhs=transpose_rhs, name=name
    )
    # The library need not have an algorithm for one or two rows.
    if pattern not in ("ragged", "all_empty", "no_rows"):
        assert_launched_by_cublaslt(name, device, 3)


@HOST_MODES
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_host_size_launch_wider_result(device, wherever_possible, dtype, mode):
    operands = random_operands(
        [300, 0, 213], 600, 72, 136, dtype, out_dtype=jnp.float32
    )
    name = f"wider/{jnp.dtype(dtype)}/{mode}"
    out = jax.jit(
        lambda lhs, rhs, sizes: gg.grouped_gemm(
            lhs, rhs, sizes, mode=mode, preferred_element_type=jnp.float32, name=name
        )
    )(*operands[:3])
    assert out.dtype == jnp.float32
    assert_close(out, reference_grouped_gemm(*operands[:3]))
    assert_launched_by_cublaslt(name, device, 1)


@HOST_MODES
@pytest.mark.parametrize(
    ("dtype", "k", "n"), [(jnp.bfloat16, 2048, 4096), (jnp.float32, 512, 1024)]
)
def test_host_size_launch_large_products(device, dtype, k, n, mode):
    """The policy takes cuBLASLt by itself, for the gradients too."""
    operands = random_operands([1000, 0, 1040], 2100, k, n, dtype)
    name = f"large/{jnp.dtype(dtype)}/{mode}"
    check_products(operands, mode=mode, name=name)
    assert_launched_by_cublaslt(name, device, 3)


@HOST_MODES
def test_host_size_launch_small_products_run_own_kernels(device, mode):
    name = f"small/{mode}"
    check_products(random_operands([8, 0, 3], 16, 64, 128), mode=mode, name=name)
    if is_cuda(device):
        launches = site_stats(name, device)["host_size_launches"]
        assert launches == {"kernels: few rows a group": 3}


@pytest.mark.parametrize(("k", "n"), [(71, 136), (72, 135)])
def test_host_size_launch_unaligned_rows_run_own_kernels(
    device, wherever_possible, k, n
):
    name = f"unaligned/{k}/{n}"
    operands = random_operands([300, 0, 213], 600, k, n, jnp.bfloat16)
    check_products(operands, mode="sync", name=name)
    if is_cuda(device):
        launches = site_stats(name, device)["host_size_launches"]
        assert launches == {"kernels: rows are not multiples of 16 bytes": 3}


@HOST_MODES
def test_host_size_launch_nan_stays_in_its_group(device, wherever_possible, mode):
    operands = random_operands([130, 70, 0, 200], 420, 72, 136)
    bad = operands.rhs.copy()
    bad[1] = np.nan
    check_products(operands._replace(rhs=bad), mode=mode)


@pytest.mark.parametrize("dtype", DTYPES)
def test_host_size_launch_bits_repeat(device, wherever_possible, dtype):
    """From call to call, at other addresses and in both modes."""
    operands = random_operands([513, 0, 96, 1000, 31], 1700, 264, 520, dtype)
    first = run_products(*operands, mode="sync")
    held = []
    for mode in ("sync", "async") * 3:
        held.append(jax.device_put(np.empty(1 << 20, np.uint8)))
        again = run_products(*operands, mode=mode)
        assert_products_bit_equal(again, first)


def test_host_size_launch_threads(device, wherever_possible):
    """Calls of several threads share the side streams, one at a time."""
    patterns = [[700, 0, 90, 234], [1, 2, 3, 1000], [0, 1024, 0, 0], [256] * 4]
    calls = [
        random_operands(sizes, 1100, 136, 264, seed=i)
        for i, sizes in enumerate(patterns)
    ]
    truths = [truth_of(operands) for operands in calls]

    def run(index):
        with jax.default_device(device):
            for _ in range(10):
                actual = run_products(*calls[index], mode="async", name="threads")
                assert_products_close(actual, truths[index])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, index) for index in range(4)]:
            done.result()
    if is_cuda(device):
        assert site_stats("threads", device)["guards_tripped"] == 0


def async_product(operands, sizes, ticket, name):
    """The GEMM with this ticket, whatever it came from: no lowering looks at it."""
    lhs, rhs = operands.lhs, operands.rhs
    target = _ffi.target_name("grouped_gemm_async")
    shape = jax.ShapeDtypeStruct((lhs.shape[0], rhs.shape[2]), lhs.dtype)
    return jax.ffi.ffi_call(target, shape)(
        lhs,
        rhs,
        sizes,
        ticket,
        transpose_rhs=False,
        site=np.int64(call_site(name)),
        fallback=np.int64(0),
        operands=np.int64(OptionalOperands(ticket=ticket).bits),
        group_offset=np.int64(-1),
        layer=np.int64(-1),
    )


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_host_size_launch_guard_recomputes_stale_sizes(
    device, wherever_possible, dtype
):
    """The slot holds another copy's sizes than the operand: the device finds out."""
    if not is_cuda(device):
        pytest.skip("a ticket is looked at on a GPU only")
    operands = random_operands([300, 0, 213, 87], 640, 72, 136, dtype)
    stale = np.array([10, 500, 0, 130], np.int32)
    name = f"planted/{jnp.dtype(dtype)}"
    ticket_shape = jax.ShapeDtypeStruct((ticket_words(stale),), jnp.uint32)
    copy = jax.jit(jax.ffi.ffi_call(_ffi.target_name("group_sizes_copy"), ticket_shape))
    # In place, so that the ticket lies where the slot is looked up: another stamp.
    restamp = jax.jit(lambda ticket: ticket.at[0].add(1), donate_argnums=0)
    product = jax.jit(
        lambda sizes, ticket: async_product(operands, sizes, ticket, name)
    )

    ticket = copy(stale)
    address = ticket.unsafe_buffer_pointer()
    ticket = restamp(ticket)
    assert ticket.unsafe_buffer_pointer() == address
    out = product(operands.group_sizes, ticket)
    assert_close(out, reference_grouped_gemm(*operands[:3]))
    stats = site_stats(name, device)
    assert stats["fallbacks"] == {}
    assert stats["host_size_launches"] == {"cublaslt": 1}
    assert stats["guards_tripped"] == 1

    # The same call with the ticket of its own sizes: the guard holds.
    out = product(operands.group_sizes, copy(operands.group_sizes))
    assert_close(out, reference_grouped_gemm(*operands[:3]))
    stats = site_stats(name, device)
    assert stats["host_size_launches"] == {"cublaslt": 2}
    assert stats["guards_tripped"] == 1


def test_host_size_launch_reports_the_library(device, wherever_possible):
    check_products(random_operands([64, 64], 128, 64, 64), mode="sync", name="library")
    if is_cuda(device):
        version = site_stats("library", device)["cublaslt"]
        assert int(version.split(".")[0]) >= 12
