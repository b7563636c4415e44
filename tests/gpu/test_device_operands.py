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
