# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""group_offset, layer and bias in mode device: read anew at every replay, never past
the operands."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES
from support.recording import recorded

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

pytestmark = pytest.mark.gpu

SIZES = np.array([70, 0, 9, 33, 1, 17, 0, 5], np.int32)
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
M, K, N, LAYERS, LOCAL = 140, 72, 136, 3, 4


def operands(dtype, transpose_rhs):
    rng = np.random.default_rng(0)
    inner = (N, K) if transpose_rhs else (K, N)
    shapes = ((M, K), (LAYERS, LOCAL, *inner), (LAYERS, LOCAL, N))
    return [jnp.asarray(rng.standard_normal(s, np.float32), dtype) for s in shapes]


@functools.partial(jax.jit, static_argnames=("transpose_rhs", "name"))
def local_call(lhs, rhs, bias, offset, layer, *, transpose_rhs=False, name="local"):
    return gg.grouped_gemm(
        lhs,
        rhs,
        SIZES,
        bias=bias,
        group_offset=offset,
        layer=layer,
        transpose_rhs=transpose_rhs,
        mode="device",
        name=name,
    )


def expected(lhs, rhs, bias, offset, layer, transpose_rhs):
    """The same by a plain call: absent groups get no rows, an absent layer no groups.
    Any position of a row gives the same bits."""
    out = np.zeros((M, N), np.asarray(lhs).dtype)
    if not 0 <= layer < LAYERS:
        return out
    first, last = max(offset, 0), min(offset + LOCAL, len(SIZES))
    if first >= last:
        return out
    local = np.zeros(LOCAL, np.int32)
    local[first - offset : last - offset] = SIZES[first:last]
    rows = slice(STARTS[first], STARTS[last])
    out[rows] = gg.grouped_gemm(
        lhs[rows],
        rhs[layer],
        local,
        bias=bias[layer],
        transpose_rhs=transpose_rhs,
        mode="device",
        name="plain",
    )
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_device_operands_follow_their_buffers(device, dtype, transpose_rhs):
    arrays = operands(dtype, transpose_rhs)
    for offset in range(len(SIZES) - LOCAL + 1):
        for layer in range(LAYERS):
            out = local_call(
                *arrays,
                jnp.int32(offset),
                jnp.int32(layer),
                transpose_rhs=transpose_rhs,
            )
            assert_bit_equal(
                out,
                expected(*arrays, offset, layer, transpose_rhs),
                f"{offset} {layer}",
            )


@pytest.mark.parametrize(
    ("offset", "layer", "rule"),
    [
        (-1, 0, "group_offset must be in [0, 4]; got -1"),
        (-4, 0, "group_offset must be in [0, 4]; got -4"),
        (5, 0, "group_offset must be in [0, 4]; got 5"),
        (2**31 - 1, 0, "group_offset must be in [0, 4]; got 2147483647"),
        (-(2**31), 0, "group_offset must be in [0, 4]; got -2147483648"),
        (0, -1, "layer must be in [0, 2]; got -1"),
        (0, 2**31 - 1, "layer must be in [0, 2]; got 2147483647"),
    ],
)
def test_device_operands_out_of_range_are_recorded(device, offset, layer, rule):
    arrays = operands(jnp.bfloat16, False)
    for _ in range(4):
        out = local_call(*arrays, jnp.int32(offset), jnp.int32(layer), name="beyond")
        assert_bit_equal(out, expected(*arrays, offset, layer, False))
        with pytest.raises(gg.GroupSizesError, match=recorded(device, rule, "beyond")):
            gg.check()
    for at in range(LAYERS):
        out = local_call(*arrays, jnp.int32(1), jnp.int32(at), name="beyond")
        assert_bit_equal(out, expected(*arrays, 1, at, False))
    gg.check()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_device_operands_with_many_rows_a_group(device, dtype, transpose_rhs):
    """Rows enough for the kernel of large groups, where the architecture has one."""
    rng = np.random.default_rng(1)
    sizes = np.array([700, 0, 129, 1000, 64, 300], np.int32)
    m, k, n, local, layers = 2304, 128, 256, 3, 2
    inner = (n, k) if transpose_rhs else (k, n)
    shapes = ((m, k), (layers, local, *inner), (layers, local, n))
    lhs, rhs, bias = (
        jnp.asarray(rng.standard_normal(s, np.float32), dtype) for s in shapes
    )
    call = jax.jit(
        functools.partial(
            gg.grouped_gemm, transpose_rhs=transpose_rhs, mode="device", name="many"
        )
    )
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for offset in range(4):
        for layer in range(layers):
            out = np.asarray(
                call(
                    lhs,
                    rhs,
                    sizes,
                    bias=bias,
                    group_offset=jnp.int32(offset),
                    layer=jnp.int32(layer),
                ),
                np.float32,
            )
            wanted = np.zeros((m, n), np.float32)
            for i in range(local):
                rows = slice(starts[offset + i], starts[offset + i + 1])
                weights = np.asarray(rhs[layer, i], np.float32)
                weights = weights.T if transpose_rhs else weights
                wanted[rows] = np.asarray(lhs[rows], np.float32) @ weights
                wanted[rows] += np.asarray(bias[layer, i], np.float32)
            np.testing.assert_allclose(out, wanted, 0.01, 0.15)
            alien = np.ones(m, bool)
            alien[starts[offset] : starts[offset + local]] = False
            np.testing.assert_array_equal(out[alien], 0)
