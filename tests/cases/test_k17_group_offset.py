# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K17: group_offset and expert parallelism. P-049's two devices are CPUs here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from support.bad_sizes import HOST_ERRORS
from support.operands import MODES, random_operands

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_close, reference_grouped_gemm

SIZES = np.array([10, 20, 6, 12, 18, 8, 12, 10], np.int32)
M, K, N = 96, 16, 24


@pytest.mark.parametrize("mode", MODES)
def test_p048_two_local_groups_of_eight(device, mode):
    """P-048: groups 3 and 4 alone; dlhs likewise, drhs has two groups."""
    lhs, rhs, _, dout = random_operands(SIZES, M, K, N)
    local = rhs[3:5]

    def call(lhs, local):
        offset = jnp.array([3], jnp.int32)
        return gg.grouped_gemm(lhs, local, SIZES, group_offset=offset, mode=mode)

    out, pullback = jax.vjp(call, lhs, local)
    dlhs, drhs = pullback(dout)
    alone = np.zeros_like(rhs)
    alone[3:5] = local
    assert_close(out, reference_grouped_gemm(lhs, alone, SIZES))
    rows = np.arange(M)
    alien = (rows < 36) | (rows >= 66)
    np.testing.assert_array_equal(np.asarray(out)[alien], 0)
    np.testing.assert_array_equal(np.asarray(dlhs)[alien], 0)
    assert drhs.shape == (2, K, N)


def test_p049_global_sizes_need_an_offset():
    """P-049: with the offset right, without it a check of shapes."""
    lhs, rhs, *_ = random_operands(SIZES, M, K, N)
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("x",))

    def call(lhs, rhs, sizes, has_offset):
        first = jax.lax.axis_index("x") * rhs.shape[0]
        options = {"group_offset": first} if has_offset else {}
        return jax.lax.psum(gg.grouped_gemm(lhs, rhs, sizes, **options), "x")

    def sharded(has_offset):
        return jax.jit(
            jax.shard_map(
                lambda *a: call(*a, has_offset),
                mesh=mesh,
                in_specs=(P(), P("x"), P()),
                out_specs=P(),
            )
        )

    assert_close(
        sharded(True)(lhs, rhs, SIZES), reference_grouped_gemm(lhs, rhs, SIZES)
    )
    with pytest.raises(ValueError, match="one entry for each of the 4 groups of rhs"):
        sharded(False)(lhs, rhs, SIZES)


@pytest.mark.parametrize("offset", [-1, 4, 5, 8])
@pytest.mark.parametrize("is_static", [True, False])
def test_p050_offset_past_the_groups(device, offset, is_static):
    """P-050: 4 is the last that fits. A traced one raises where the host sees it and
    is recorded in mode device, with zeros for groups that do not exist."""
    lhs, rhs, *_ = random_operands(SIZES, M, K, N)

    def run():
        index = offset if is_static else jnp.int32(offset)
        out = gg.grouped_gemm(lhs, rhs[:4], SIZES, group_offset=index, name="p050")
        return jax.block_until_ready(out)

    if offset == 4:
        assert np.isfinite(run()).all()
        return
    with pytest.raises((*HOST_ERRORS, gg.GroupSizesError), match="group_offset must"):
        run() if is_static or device.platform == "cpu" else (run(), gg.check())
