# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm(group_offset=)`: the experts of one device among those of all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from support.messages import raises_text
from support.operands import DTYPES, MODES, random_operands

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

SIZES = np.array([3, 0, 9, 1, 4], np.int32)
M = 21
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
FORMS = {
    "static": int,
    "numpy": np.int64,
    "traced": lambda offset: jnp.asarray(offset, jnp.int8),
    "of one": lambda offset: jnp.asarray([offset], jnp.uint16),
}


def products(lhs, rhs, dout, **options):
    def call(lhs, rhs):
        return gg.grouped_gemm(lhs, rhs, SIZES, **options)

    out, pullback = jax.vjp(call, lhs, rhs)
    return out, *pullback(dout)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset", range(4))
def test_grouped_gemm_offset_is_a_part_of_the_whole(device, mode, form, offset):
    """Result and dlhs are those of all groups, with zeros in the others' rows; drhs is
    the part. What the others' rows hold influences nothing."""
    lhs, rhs, _, dout = random_operands(SIZES, M, 24, 40)
    whole = products(lhs, rhs, dout, mode=mode)
    groups = slice(offset, offset + 2)
    is_local = np.zeros((M, 1), bool)
    is_local[STARTS[offset] : STARTS[offset + 2]] = True
    lhs, dout = (np.where(is_local, a, np.nan).astype(a.dtype) for a in (lhs, dout))
    index = FORMS[form](offset)
    out, dlhs, drhs = products(lhs, rhs[groups], dout, group_offset=index, mode=mode)
    assert_bit_equal(out, np.where(is_local, whole[0], 0))
    assert_bit_equal(dlhs, np.where(is_local, whole[1], 0))
    assert_bit_equal(drhs, whole[2][groups])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_grouped_gemm_offset_in_every_type_and_layout(device, dtype, transpose_rhs):
    options = {"transpose_rhs": transpose_rhs}
    lhs, rhs, _, dout = random_operands(SIZES, M, 130, 67, dtype, **options)
    out, dlhs, drhs = products(lhs, rhs, dout, **options)
    rows = np.s_[3:13]
    part = products(lhs, rhs[1:4], dout, group_offset=1, **options)
    assert_bit_equal(part[0][rows], out[rows])
    assert_bit_equal(part[1][rows], dlhs[rows])
    assert_bit_equal(part[2], drhs[1:4])
    for rest in (np.s_[:3], np.s_[13:]):
        np.testing.assert_array_equal(np.asarray(part[0])[rest], 0)
        np.testing.assert_array_equal(np.asarray(part[1])[rest], 0)


def test_grouped_gemm_offset_with_bias_and_its_gradient(device):
    lhs, rhs, _, dout = random_operands(SIZES, M, 24, 40)
    bias = np.random.default_rng(1).standard_normal((5, 40), np.float32)

    def gradient(rhs, bias, **options):
        def call(bias):
            return gg.grouped_gemm(lhs, rhs, SIZES, bias=bias, **options)

        out, pullback = jax.vjp(call, bias)
        return out, *pullback(dout)

    out, dbias = gradient(rhs, bias)
    part, dpart = gradient(rhs[2:4], bias[2:4], group_offset=jnp.int32(2))
    assert_bit_equal(part[3:13], out[3:13])
    np.testing.assert_array_equal(np.asarray(part)[13:], 0)
    assert_bit_equal(dpart, dbias[2:4])


def test_grouped_gemm_offset_of_no_local_groups_gives_zeros(device):
    lhs, rhs, _, dout = random_operands(SIZES, M, 24, 40)
    out, dlhs, drhs = products(lhs, rhs[:0], dout, group_offset=5)
    assert drhs.shape == (0, 24, 40)
    np.testing.assert_array_equal(np.asarray(out), 0)
    np.testing.assert_array_equal(np.asarray(dlhs), 0)


def test_grouped_gemm_offset_shards_experts():
    """Each of two devices multiplies its own experts; the sum is the whole."""
    lhs, rhs, sizes, dout = random_operands([3, 5, 0, 4], 15, 16, 24)
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("x",))

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(P(), P("x"), P()), out_specs=P())
    def sharded(lhs, rhs, sizes):
        offset = jax.lax.axis_index("x") * rhs.shape[0]
        out = gg.grouped_gemm(lhs, rhs, sizes, group_offset=offset)
        return jax.lax.psum(out, "x")

    def gradients(call):
        out, pullback = jax.vjp(lambda lhs, rhs: call(lhs, rhs, sizes), lhs, rhs)
        return out, *pullback(dout)

    for got, wanted in zip(gradients(sharded), gradients(gg.grouped_gemm), strict=True):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("offset", "error", "text"),
    [
        (
            4,
            ValueError,
            "grouped_gemm: group_offset must be in [0, 3]; got 4. Pass the number of "
            "groups before those that rhs holds.",
        ),
        (
            -1,
            ValueError,
            "grouped_gemm: group_offset must be in [0, 3]; got -1. Pass the number of "
            "groups before those that rhs holds.",
        ),
        (
            1.0,
            TypeError,
            "grouped_gemm: group_offset must have an integer dtype; got float64. "
            "Cast it.",
        ),
        (
            "first",
            TypeError,
            "grouped_gemm: group_offset must have an integer dtype; got <U5. Cast it.",
        ),
        (
            np.array([0, 1]),
            ValueError,
            "grouped_gemm: group_offset must be a scalar or have shape (1,); got shape "
            "(2,). Pass one integer.",
        ),
    ],
)
def test_grouped_gemm_offset_errors(device, offset, error, text):
    lhs, rhs, *_ = random_operands(SIZES, M, 4, 8)
    with raises_text(error, text):
        gg.grouped_gemm(lhs, rhs[:2], SIZES, group_offset=offset)


def test_grouped_gemm_offset_needs_the_sizes_of_all_groups(device):
    lhs, rhs, *_ = random_operands(SIZES, M, 4, 8)
    text = (
        "grouped_gemm: group_sizes must have an entry for every group, at least the 5 "
        "of rhs; got shape (2,). With group_offset, count the rows of all groups, not "
        "of rhs's."
    )
    with raises_text(ValueError, text):
        gg.grouped_gemm(lhs, rhs, SIZES[:2], group_offset=0)


@pytest.mark.parametrize("offset", [-1, 4, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_grouped_gemm_offset_traced_out_of_range_raises(device, offset, mode):
    """At the call, or, on a GPU in mode async, where the record is asked for."""
    lhs, rhs, *_ = random_operands(SIZES, M, 4, 8)

    def run():
        options = {"group_offset": jnp.int32(offset), "mode": mode, "name": "experts"}
        jax.block_until_ready(gg.grouped_gemm(lhs, rhs[:2], SIZES, **options))
        gg.check()

    with pytest.raises((ValueError, jax.errors.JaxRuntimeError)) as raised:
        run()
    assert (
        f"grouped_gemm: group_offset must be in [0, 3]; got {offset} (call site "
        "experts). Pass the number of groups before those that rhs holds."
    ) in str(raised.value)
