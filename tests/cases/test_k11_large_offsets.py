# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K11: element offsets past 32 bits: on a GPU as reported, on a CPU small."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.big import patterned, patterned_part
from support.platforms import is_cuda

import graphsafe_gg as gg
from graphsafe_gg.mlp import permute, unpermute
from graphsafe_gg.testing import (
    Truth,
    assert_bit_equal,
    assert_close,
    reference_drhs,
    reference_grouped_gemm,
)

BF16 = jnp.bfloat16
# The largest takes 40 GB: where several workers share a GPU, one of them runs them all.
large = pytest.mark.xdist_group("large")
modes = pytest.mark.parametrize("mode", ["sync", "device"])
dtypes = pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])


def drhs_of(lhs, dout, sizes, shape, dtype, mode):
    """The weight gradient alone; the weights themselves play no part in it."""

    @jax.jit
    def run(lhs, dout, sizes):
        def call(rhs):
            return gg.grouped_gemm(lhs, rhs, sizes, mode=mode)

        return jax.linear_transpose(call, jax.ShapeDtypeStruct(shape, dtype))(dout)[0]

    return run(lhs, dout, sizes)


@large
@dtypes
@modes
def test_p028_many_large_experts(device, mode, dtype):
    """P-028: 3.76e9 weight elements; the last groups are right, as are their dW."""
    g, k, n = (64, 4096, 14336) if is_cuda(device) else (64, 32, 48)
    sizes = np.ones(g, np.int32)
    lhs, rhs = patterned((g, k), dtype), patterned((g, k, n), dtype, seed=1)
    out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode)
    columns = np.array([0, 1, n // 3, n // 2, n - 2, n - 1])
    lhs_rows, out_rows = np.asarray(lhs), np.asarray(out)
    for group in (0, 1, 31, 60, 61, 62, 63):
        weights = patterned_part((g, k, n), np.s_[group, :, columns], dtype, seed=1)
        truth = reference_grouped_gemm(lhs_rows[group : group + 1], weights, [1])
        assert_close(out_rows[group : group + 1, columns], truth, what=f"out {group}")
    del rhs
    drhs = drhs_of(lhs, out, sizes, (g, k, n), dtype, mode)
    for group in (0, 31, 60, 63):
        row = np.s_[group : group + 1]
        truth = reference_drhs(lhs_rows[row], out_rows[row, columns], [1])
        assert_close(drhs[row, :, columns], truth, what=f"drhs {group}")


@large
@dtypes
@modes
def test_p029_many_rows(device, mode, dtype):
    """P-029: lhs of 2.15e9 elements; the last group's rows are right, dlhs too."""
    m, k, n, g, last = (
        (525312, 4096, 64, 8, 512)
        if is_cuda(device)
        else (
            2048,
            64,
            16,
            8,
            512,
        )
    )
    sizes = np.full(g, (m - last) // (g - 1), np.int32)
    sizes[-1] = last
    sizes[0] += m - sizes.sum()
    lhs, rhs = patterned((m, k), dtype), patterned((g, k, n), dtype, seed=1)

    @jax.jit
    def run(lhs, rhs, dout):
        out, pullback = jax.vjp(
            lambda lhs: gg.grouped_gemm(lhs, rhs, sizes, mode=mode), lhs
        )
        return out, pullback(dout)[0]

    dout = patterned((m, n), dtype, seed=2)
    out, dlhs = run(lhs, rhs, dout)
    rows = np.s_[m - last : m]
    weights = np.asarray(rhs)[-1:]
    truth = reference_grouped_gemm(
        patterned_part((m, k), np.s_[rows, :], dtype), weights, [last]
    )
    assert_close(out[rows], truth)
    truth = reference_grouped_gemm(
        np.asarray(dout[rows]), weights, [last], transpose_rhs=True
    )
    assert_close(dlhs[rows], truth)


@large
@dtypes
@modes
def test_p029_large_result(device, mode, dtype):
    """P-029: a result of 2.3e9 elements: last group, and zeros up to the last row."""
    m, k, n, g = (140000, 64, 16384, 4) if is_cuda(device) else (1400, 64, 160, 4)
    tail, last = 100, 300
    sizes = np.array([m // 2, 0, m - m // 2 - last - tail, last], np.int32)
    lhs, rhs = patterned((m, k), dtype), patterned((g, k, n), dtype, seed=1)
    out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode)
    rows = np.s_[m - last - tail : m]
    truth = reference_grouped_gemm(
        patterned_part((m, k), np.s_[rows, :], dtype), np.asarray(rhs)[-1:], [last]
    )
    assert_close(out[rows], truth)


@large
@dtypes
@modes
def test_p030_long_contraction(device, mode, dtype):
    """P-030: a weight gradient over 600000 rows of 4096."""
    m, k, n, g = (600000, 4096, 128, 16) if is_cuda(device) else (6000, 64, 16, 16)
    sizes = np.full(g, m // g, np.int32)
    sizes[3], sizes[4] = 0, 2 * (m // g)
    lhs, dout = patterned((m, k), dtype), patterned((m, n), dtype, seed=1)
    drhs = np.asarray(drhs_of(lhs, dout, sizes, (g, k, n), dtype, mode))
    assert not drhs[3].any()
    # Some rows of dW of the first, the double and the last group.
    columns = np.array([0, 1, k // 2, k - 1])
    for group in (0, 4, g - 1):
        start = int(sizes[:group].sum())
        rows = np.s_[start : start + int(sizes[group])]
        truth = reference_drhs(
            patterned_part((m, k), np.s_[rows, columns], dtype),
            patterned_part((m, n), np.s_[rows, :], dtype, seed=1),
            sizes[group : group + 1],
        )
        truth = Truth(truth.value[0], truth.magnitude[0], truth.num_terms[0])
        assert_close(drhs[group, columns], truth, what=f"group {group}: ")


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize(
    ("m", "k", "n", "g"),
    [
        (2**31 + 7, 4096, 64, 8),
        (600000, 4096, 128, 16),
        (2**20, 2**31 + 1, 3, 2),
        (2**20, 5, 2**31 + 1, 2),
        (8, 4096, 14336, 2**16 + 1),
    ],
)
def test_p030_validation_of_large_shapes(m, k, n, g, transpose_rhs):
    """P-030: checks and shape rules hold for axes and products past 2^31."""

    def products(lhs, rhs, sizes):
        out, pullback = jax.vjp(
            lambda *ab: gg.grouped_gemm(*ab, sizes, transpose_rhs=transpose_rhs),
            lhs,
            rhs,
        )
        return out, *pullback(out)

    rhs_shape = (g, n, k) if transpose_rhs else (g, k, n)
    out, dlhs, drhs = jax.eval_shape(
        products,
        jax.ShapeDtypeStruct((m, k), BF16),
        jax.ShapeDtypeStruct(rhs_shape, BF16),
        jax.ShapeDtypeStruct((g,), jnp.int32),
    )
    assert (out.shape, dlhs.shape, drhs.shape) == ((m, n), (m, k), rhs_shape)


@large
def test_p031_permute_of_many_rows(device):
    """P-031: 530000 rows of 4096 columns there and back, with gradient."""
    num_rows, width = (530000, 4096) if is_cuda(device) else (5300, 64)
    num_experts = 8
    expert_idx = np.random.default_rng(0).integers(0, num_experts, (num_rows, 1))
    expert_idx = expert_idx.astype(np.int32)
    tokens = patterned((num_rows, width))
    weights = jnp.ones((num_rows, 1), jnp.float32)

    @jax.jit
    def there_and_back(tokens):
        rows, sizes, permutation = permute(tokens, expert_idx, num_experts)
        return rows, sizes, unpermute(rows, permutation, weights)

    rows, sizes, back = there_and_back(tokens)
    order = np.argsort(expert_idx[:, 0], kind="stable")
    counts = np.bincount(expert_idx[:, 0], minlength=num_experts)
    assert np.asarray(sizes).tolist() == counts.tolist()
    last = np.s_[num_rows - 300 : num_rows]
    assert_bit_equal(
        rows[last], patterned_part((num_rows, width), np.s_[order[last], :])
    )
    del rows
    assert_bit_equal(back[last], patterned_part((num_rows, width), np.s_[last, :]))
    del back

    @jax.jit
    def gradient(tokens):
        def loss(tokens):
            return jnp.sum(there_and_back(tokens)[2].astype(jnp.float32) * 3)

        return jax.grad(loss)(tokens)

    assert (np.asarray(gradient(tokens)[last]) == 3).all()
