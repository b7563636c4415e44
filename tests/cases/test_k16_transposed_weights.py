# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K16: weights that are transposed, or slices of something else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, assert_close

modes = pytest.mark.parametrize("mode", MODES)
SIZES = [9, 0, 20, 3]


@modes
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["eager", "jit"])
def test_p046_swapped_and_sliced_weights(device, mode, dtype, how):
    """P-046: swapaxes and a slice at an odd offset give what a copy gives."""
    operands = random_operands(SIZES, 40, 72, 40, dtype)
    lhs, rhs, sizes, _ = operands
    stored = np.ascontiguousarray(rhs.swapaxes(1, 2))
    big = np.concatenate([np.full((4, 1, 40), np.nan, rhs.dtype), rhs], axis=1)
    truth = truth_of(operands).out

    def swapped(lhs, stored):
        return gg.grouped_gemm(lhs, jnp.swapaxes(stored, 1, 2), sizes, mode=mode)

    def sliced(lhs, big):
        return gg.grouped_gemm(lhs, big[:, 1:, :], sizes, mode=mode)

    for function, weights in ((swapped, stored), (sliced, big)):
        call = jax.jit(function) if how == "jit" else function
        assert_close(call(lhs, jnp.asarray(weights)), truth)


@modes
def test_p046_rows_sliced_at_odd_offsets(device, mode):
    """P-046: lhs and rhs start anywhere inside larger arrays."""
    operands = random_operands(SIZES, 40, 9, 7, jnp.bfloat16)
    lhs, rhs, sizes, _ = operands
    nan = np.full(1, np.nan, lhs.dtype)

    @jax.jit
    def call(flat_lhs, flat_rhs):
        return gg.grouped_gemm(
            flat_lhs[1:].reshape(lhs.shape),
            flat_rhs[1:].reshape(rhs.shape),
            sizes,
            mode=mode,
        )

    out = call(np.concatenate([nan, lhs.ravel()]), np.concatenate([nan, rhs.ravel()]))
    assert_close(out, truth_of(operands).out)


@modes
@pytest.mark.parametrize("dtype", DTYPES)
def test_p047_gradients_of_transposed_weights(device, mode, dtype):
    """P-047: with the flag and with swapaxes, dW in the layout of the argument."""
    operands = random_operands(SIZES, 40, 72, 40, dtype, transpose_rhs=True)
    lhs, stored, sizes, dout = operands
    flagged = check_products(operands, mode=mode, transpose_rhs=True)

    @jax.jit
    def swapped(lhs, stored, dout):
        def call(lhs, stored):
            return gg.grouped_gemm(lhs, jnp.swapaxes(stored, 1, 2), sizes, mode=mode)

        out, pullback = jax.vjp(call, lhs, stored)
        return out, *pullback(dout)

    truth = truth_of(operands, transpose_rhs=True)
    assert_products_close(type(truth)(*swapped(lhs, stored, dout)), truth)
    assert flagged.drhs.shape == stored.shape


@modes
def test_p047_both_layouts_hold_the_same_numbers(device, mode):
    """P-047: dlhs of one layout is the forward of the other, bit for bit."""
    operands = random_operands(SIZES, 40, 72, 40)
    _, rhs, sizes, dout = operands
    dlhs = run_products(*operands, mode=mode).dlhs
    assert_bit_equal(
        dlhs, gg.grouped_gemm(dout, rhs, sizes, mode=mode, transpose_rhs=True)
    )
