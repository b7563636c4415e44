# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K15: the weight gradient of a group without rows is exact zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import MODES, poison_tail, random_operands
from support.platforms import is_cuda
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import (
    assert_bit_equal,
    assert_close,
    dirty_memory,
    reference_drhs,
)

modes = pytest.mark.parametrize("mode", MODES)


@modes
def test_p039_empty_groups_between_large_ones(device, mode):
    """P-039: groups 1 and 4 are zeros to the bit, the others right."""
    sizes = np.array([162, 0, 2577, 446, 0, 83], np.int32)
    k, n = (2048, 768) if is_cuda(device) else (64, 48)
    operands = random_operands(sizes, 3268, k, n, jnp.bfloat16)
    drhs = check_products(operands, mode=mode).drhs
    assert_bit_equal(drhs[[1, 4]], np.zeros((2, k, n), jnp.bfloat16))


@modes
@pytest.mark.parametrize(
    "sizes",
    [
        [6, 6, 5, 5, 5, 5] + [0] * 12,
        [0, 6, 6, 5, 5, 5, 5] + [0] * 11,
        [0] * 12 + [6, 6, 5, 5, 5, 5],
        [4, 0] * 8 + [0, 0],
        [0] * 9 + [32] + [0] * 8,
    ],
    ids=["twelve_last", "first_and_last", "twelve_first", "alternate", "all_but_one"],
)
def test_p040_most_groups_empty(device, mode, sizes):
    """P-040: zeros in every empty group, and what jax.lax.ragged_dot says."""
    operands = random_operands(sizes, 32, 64, 43)
    lhs, rhs, group_sizes, _ = operands

    def sum_of(product):
        return jax.jit(jax.grad(lambda rhs: jnp.sum(product(lhs, rhs, group_sizes))))

    ours = sum_of(lambda *a: gg.grouped_gemm(*a, mode=mode))(rhs)
    with jax.default_matmul_precision("highest"):
        theirs = sum_of(jax.lax.ragged_dot)(rhs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    is_empty = group_sizes == 0
    assert_bit_equal(
        np.asarray(ours)[is_empty], np.zeros((is_empty.sum(), 64, 43), np.float32)
    )


@modes
def test_p041_sparse_step_after_a_dense_one(device, mode):
    """P-041: the gradient lands where a full one lay; zeros every time."""
    g, m = 256, 512
    full = random_operands(np.full(g, 2, np.int32), m, 128, 64, jnp.bfloat16)
    sparse_sizes = np.zeros(g, np.int32)
    sparse_sizes[:: g // 56] = 1
    for sizes in (sparse_sizes, np.zeros(g, np.int32)):
        sparse = full._replace(group_sizes=sizes)
        truth = truth_of(sparse)
        for _ in range(20 if is_cuda(device) else 3):
            jax.block_until_ready(run_products(*full, mode=mode))
            assert_close(run_products(*sparse, mode=mode).drhs, truth.drhs)


@modes
def test_p042_rows_at_the_very_end(device, mode):
    """P-042: the last group ends with the last row."""
    for sizes in ([0, 0, 0, 8], [0, 7, 0, 1], [8, 0, 0, 0]):
        check_products(random_operands(sizes, 8, 24, 40), f"{sizes}: ", mode=mode)


@pytest.mark.parametrize(
    ("mode", "shape"),
    [("sync", "small"), ("device", "small"), ("async", "small"), ("device", "large")],
)
def test_p043_two_problems_without_depth(device, mode, shape, capfd):
    """P-043: empty groups in a weight gradient end, and print nothing."""
    is_large = shape == "large" and is_cuda(device)
    m, k, n = (7168, 4096, 4096) if is_large else (64, 128, 128)
    sizes = np.full(8, m // 8, np.int32)
    sizes[[2, 5]] = 0
    operands = random_operands(sizes, m, k, n, jnp.bfloat16)
    jax.block_until_ready(run_products(*operands, mode=mode))
    capfd.readouterr()
    drhs = np.asarray(run_products(*operands, mode=mode).drhs)
    assert capfd.readouterr().err == ""
    assert not drhs[[2, 5]].any()
    lhs, _, _, dout = operands
    assert_close(drhs[:, :64, :64], reference_drhs(lhs[:, :64], dout[:, :64], sizes))


@modes
@pytest.mark.parametrize("m", [0, 64])
def test_p044_no_work_is_not_no_result(device, mode, m):
    """P-044: without a single row both gradients are still written."""
    operands = poison_tail(random_operands([0] * 4, m, 32, 32))
    dirty_memory(device)
    products = run_products(*operands, mode=mode)
    assert_bit_equal(products.drhs, np.zeros((4, 32, 32), np.float32))
    assert_bit_equal(products.dlhs, np.zeros((m, 32), np.float32))


@modes
def test_p045_transposed_gradient(device, mode):
    """P-045: as P-041 with weights stored as (g, n, k). There is no accumulation."""
    g, m = 64, 128
    options = {"mode": mode, "transpose_rhs": True}
    full = random_operands(np.full(g, 2, np.int32), m, 32, 24, transpose_rhs=True)
    sizes = np.zeros(g, np.int32)
    sizes[::5] = 3
    sparse = full._replace(group_sizes=sizes)
    truth = truth_of(sparse, transpose_rhs=True)
    for _ in range(10):
        jax.block_until_ready(run_products(*full, **options))
        assert_products_close(run_products(*sparse, **options), truth)
