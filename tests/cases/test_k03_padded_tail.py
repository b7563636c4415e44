# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K03: fewer rows in groups than rows; the rest is padding."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, poison_tail, random_operands
from support.platforms import is_cuda
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, assert_close, dirty_memory

modes = pytest.mark.parametrize("mode", MODES)


@modes
@pytest.mark.parametrize("dtype", DTYPES)
def test_p006_rows_past_the_sum_are_zeros(device, mode, dtype):
    """P-006: with NaN in the tail of lhs and in free memory."""
    operands = poison_tail(random_operands([5, 0, 17, 9], 64, 32, 48, dtype))
    dirty_memory(device)
    out = gg.grouped_gemm(*operands[:3], mode=mode)
    assert_close(out, truth_of(operands).out)
    assert_bit_equal(out[31:], np.zeros((33, 48), dtype))


@modes
def test_p007_every_backward_pass_is_clean(device, mode):
    """P-007: the first and the fifth, with NaN filling memory in between."""
    sizes = np.zeros(16, np.int32)
    sizes[[0, 3, 7, 8, 15]] = [40, 1, 33, 0, 26]
    operands = poison_tail(random_operands(sizes, 256, 64, 64, jnp.bfloat16))
    truth = truth_of(operands)
    for _ in range(5):
        dirty_memory(device)
        products = run_products(*operands, mode=mode)
        assert_products_close(products, truth)
        assert not np.asarray(products.dlhs)[100:].any()


@modes
def test_p008_tail_reaches_no_gradient_of_the_mlp(device, mode):
    """P-008: loss and gradients have the same bits for any two tails."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, 32), np.float32)
    w_gate_up = rng.standard_normal((8, 32, 128), np.float32) / 4
    w_down = rng.standard_normal((8, 64, 32), np.float32) / 4
    sizes = np.array([10, 0, 25, 5, 0, 0, 29, 1], np.int32)

    @jax.jit
    def step(*operands):
        def loss(*operands):
            return jnp.sum(gg.grouped_mlp(*operands, sizes, mode=mode) ** 2)

        return jax.value_and_grad(loss, (0, 1, 2))(*operands)

    results = []
    for fill in (0.0, 3e38, np.nan):
        x[70:] = fill
        results.append(step(x, w_gate_up, w_down))
    for leaf in jax.tree.leaves(results):
        assert np.isfinite(leaf).all()
    for other in results[1:]:
        jax.tree.map(assert_bit_equal, other, results[0])
    dx = np.asarray(results[0][1][0])
    assert_bit_equal(dx[70:], np.zeros((58, 32), np.float32))


SHORT = 512


def worst_case_operands(device, m):
    k = n = 1024 if is_cuda(device) else 32
    rng = np.random.default_rng(0)
    sizes = rng.multinomial(SHORT, np.full(32, 1 / 32)).astype(np.int32)
    return poison_tail(random_operands(sizes, m, k, n, jnp.bfloat16))


@modes
def test_p009_worst_case_buffer_is_right(device, mode):
    """P-009: 512 rows in a buffer of 16384."""
    operands = worst_case_operands(device, 16384)
    options = {"mode": mode}
    check_products(operands, **options)


@pytest.mark.gpu
def test_p009_worst_case_buffer_costs_its_zeros(device):
    """P-009: the padding is written as zeros once, neither read nor multiplied."""
    num_calls = 16

    @jax.jit
    def steps(lhs, rhs, sizes):
        for _ in range(num_calls):
            out = gg.grouped_gemm(lhs, rhs, sizes, mode="device")
            # Each call depends on the one before, so that none is merged away.
            sizes = sizes + (out[0, 0] * 0).astype(sizes.dtype)
        return out

    def seconds(m):
        operands = [jax.device_put(a) for a in worst_case_operands(device, m)[:3]]
        best = np.inf
        for _ in range(10):
            start = time.perf_counter()
            jax.block_until_ready(steps(*operands))
            best = min(best, time.perf_counter() - start)
        return best / num_calls

    small, large = seconds(SHORT), seconds(16384)
    zeros = (16384 - SHORT) * 1024 * 2 / 2e12
    if is_cuda(device):
        assert large <= 2 * small + zeros
