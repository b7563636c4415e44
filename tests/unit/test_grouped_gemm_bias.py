# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm(bias=)`: values, gradients of any order, isolation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from support.messages import raises_text
from support.operands import DTYPES, MODES, random_operands, rows_of

import graphsafe_gg as gg
from graphsafe_gg.testing import Truth, assert_close, reference_grouped_gemm

SIZES = np.array([3, 0, 9, 1], np.int32)
M = 17  # 4 rows past the sum


def operands_and_bias(dtype=jnp.float32, sizes=SIZES, m=M, k=24, n=40, **options):
    operands = random_operands(sizes, m, k, n, dtype, **options)
    rng = np.random.default_rng(7)
    bias = rng.standard_normal((len(sizes), n), np.float32).astype(dtype)
    return operands, bias


def truth_with_bias(operands, bias, transpose_rhs=False):
    lhs, rhs, sizes, _ = operands
    truth = reference_grouped_gemm(lhs, rhs, sizes, transpose_rhs=transpose_rhs)
    value, magnitude = truth.value.copy(), truth.magnitude.copy()
    for group in range(len(sizes)):
        rows = rows_of(sizes, group)
        value[rows] += bias[group].astype(np.float64)
        magnitude[rows] += abs(bias[group].astype(np.float64))
    return Truth(value, magnitude, truth.num_terms + 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_grouped_gemm_bias_is_added(device, mode, dtype, transpose_rhs):
    operands, bias = operands_and_bias(dtype, transpose_rhs=transpose_rhs)
    out = gg.grouped_gemm(
        *operands[:3], bias=bias, mode=mode, transpose_rhs=transpose_rhs
    )
    assert_close(out, truth_with_bias(operands, bias, transpose_rhs))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_grouped_gemm_bias_is_added_before_the_rounding(device, dtype):
    operands, bias = operands_and_bias(dtype)
    wide = gg.grouped_gemm(*operands[:3], bias=bias, preferred_element_type="float32")
    narrow = gg.grouped_gemm(*operands[:3], bias=bias)
    np.testing.assert_array_equal(narrow, wide.astype(dtype))


def test_grouped_gemm_bias_is_all_of_an_empty_contraction(device):
    operands, bias = operands_and_bias(k=0)
    out = np.asarray(gg.grouped_gemm(*operands[:3], bias=bias))
    np.testing.assert_array_equal(out, truth_with_bias(operands, bias).value)


@pytest.mark.parametrize("shape", [(5, 3), (130, 7), (64, 129)])
def test_grouped_gemm_bias_at_odd_shapes(device, shape):
    k, n = shape
    operands, bias = operands_and_bias(jnp.bfloat16, k=k, n=n)
    out = gg.grouped_gemm(*operands[:3], bias=bias)
    assert_close(out, truth_with_bias(operands, bias))


def test_grouped_gemm_bias_of_a_tail_or_an_empty_group_reaches_nothing(device):
    operands, bias = operands_and_bias()
    bias[1] = np.nan
    lhs = operands.lhs.copy()
    lhs[13:] = np.nan
    out = np.asarray(gg.grouped_gemm(lhs, *operands[1:3], bias=bias))
    assert np.isfinite(out).all()
    np.testing.assert_array_equal(out[13:], 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_grouped_gemm_bias_gradient_sums_the_rows_of_a_group(device, dtype):
    operands, bias = operands_and_bias(dtype)
    lhs, rhs, sizes, dout = operands
    dout[13:] = np.nan
    pullback = jax.jit(
        lambda b, d: jax.vjp(lambda b: gg.grouped_gemm(lhs, rhs, sizes, bias=b), b)[1](
            d
        )[0]
    )
    dbias = pullback(bias, dout)
    wide = dout.astype(np.float64)
    rows = [rows_of(sizes, group) for group in range(len(sizes))]
    truth = Truth(
        np.stack([wide[r].sum(0) for r in rows]),
        np.stack([abs(wide[r]).sum(0) for r in rows]),
        sizes.astype(np.int64)[:, None],
    )
    assert dbias.dtype == dtype
    assert_close(dbias, truth)
    np.testing.assert_array_equal(np.asarray(dbias)[1], 0.0)


def test_grouped_gemm_bias_derivatives_agree_with_differences(device):
    operands, bias = operands_and_bias(k=3, n=4)
    lhs, rhs, sizes, _ = operands

    def call(lhs, rhs, bias):
        return jnp.sin(gg.grouped_gemm(lhs, rhs, sizes, bias=bias))

    with jax.default_matmul_precision("highest"):
        check_grads(call, (lhs, rhs, bias), order=2, atol=2e-2, rtol=2e-2)


def test_grouped_gemm_bias_errors(device):
    operands, bias = operands_and_bias()
    text = (
        "grouped_gemm: bias must have shape (4, 40) to match rhs; got (4, 39). "
        "Pass one row for each matrix of rhs."
    )
    with raises_text(ValueError, text):
        gg.grouped_gemm(*operands[:3], bias=bias[:, :-1])
    text = "grouped_gemm: bias must have lhs's dtype float32; got bfloat16. Cast it."
    with raises_text(TypeError, text):
        gg.grouped_gemm(*operands[:3], bias=bias.astype(jnp.bfloat16))


@pytest.mark.parametrize("group_offset", [None, 1])
def test_grouped_gemm_bias_has_a_transpose(device, group_offset):
    """Of lhs and bias together the call is linear."""
    (lhs, rhs, sizes, dout), bias = operands_and_bias()
    rhs, bias = (rhs, bias) if group_offset is None else (rhs[1:3], bias[1:3])

    def call(lhs, bias):
        return gg.grouped_gemm(lhs, rhs, sizes, bias=bias, group_offset=group_offset)

    transposed = jax.linear_transpose(call, lhs, bias)(dout)
    _, pullback = jax.vjp(call, lhs, bias)
    for got, wanted in zip(transposed, pullback(dout), strict=True):
        np.testing.assert_array_equal(got, wanted)
