# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`vmap` of `grouped_gemm` and its gradients: one product, as a loop would compute."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.messages import raises_text
from support.operands import DTYPES

import graphsafe_gg as gg
from graphsafe_gg.api.row_order import order_rows
from graphsafe_gg.testing import assert_close, reference_grouped_gemm

BATCH, M, K, N, G = 3, 11, 6, 5, 4
SIZES = np.array([[3, 0, 5, 1], [0, 0, 0, 0], [2, 7, 0, 2]], np.int32)
# Which of lhs, rhs, sizes are mapped.
MAPPED = [axes for axes in itertools.product((0, None), repeat=3) if 0 in axes]
NAMES = ["".join("LRS"[i] for i in range(3) if axes[i] == 0) for axes in MAPPED]
each_mapping = pytest.mark.parametrize("axes", MAPPED, ids=NAMES)


def operands(axes, dtype=jnp.float32, transpose_rhs=False, num_groups=G):
    rng = np.random.default_rng(0)
    inner = (N, K) if transpose_rhs else (K, N)
    shapes = ((M, K), (num_groups, *inner))
    arrays = [
        rng.standard_normal((BATCH, *s), np.float32).astype(dtype) for s in shapes
    ]
    return [
        a if axis == 0 else a[0] for a, axis in zip((*arrays, SIZES), axes, strict=True)
    ]


def entry(arrays, axes, b):
    return [a[b] if axis == 0 else a for a, axis in zip(arrays, axes, strict=True)]


def assert_batch_close(out, truths):
    for got, truth in zip(out, truths, strict=True):
        assert_close(got, truth)


@each_mapping
@pytest.mark.parametrize("mode", ["device", "async"])
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_grouped_gemm_vmap_values(device, axes, mode, transpose_rhs):
    arrays = operands(axes, transpose_rhs=transpose_rhs)
    call = functools.partial(gg.grouped_gemm, mode=mode, transpose_rhs=transpose_rhs)
    out = jax.jit(jax.vmap(call, in_axes=axes))(*arrays)
    assert_batch_close(
        out,
        [
            reference_grouped_gemm(*entry(arrays, axes, b), transpose_rhs=transpose_rhs)
            for b in range(BATCH)
        ],
    )


@each_mapping
@pytest.mark.parametrize("dtype", DTYPES)
def test_grouped_gemm_vmap_tails_are_zero_and_ignored(device, axes, dtype):
    arrays = operands(axes, dtype)
    sizes = SIZES if axes[2] == 0 else np.broadcast_to(SIZES[0], SIZES.shape)
    is_tail = np.arange(M) >= sizes.sum(1)[:, None]
    lhs = arrays[0].copy()
    lhs[is_tail if axes[0] == 0 else is_tail.all(0)] = np.nan
    out = jax.vmap(gg.grouped_gemm, in_axes=axes)(lhs, *arrays[1:])
    clean = jax.vmap(gg.grouped_gemm, in_axes=axes)(*arrays)
    assert np.isfinite(np.asarray(out, np.float32)).all()
    np.testing.assert_array_equal(np.asarray(out)[is_tail], 0)
    np.testing.assert_array_equal(out, clean)


@each_mapping
def test_grouped_gemm_vmap_of_gradients_and_gradients_of_vmap(device, axes):
    """Against a loop over the batch, for each operand that has a derivative."""
    arrays = operands(axes)

    def loss(lhs, rhs, sizes):
        return jnp.sum(jnp.sin(gg.grouped_gemm(lhs, rhs, sizes)))

    gradient = jax.grad(loss, argnums=(0, 1))
    got = jax.jit(jax.vmap(gradient, in_axes=axes))(*arrays)
    loop = [gradient(*entry(arrays, axes, b)) for b in range(BATCH)]
    for part, wanted in zip(got, zip(*loop, strict=True), strict=True):
        np.testing.assert_allclose(part, np.stack(wanted), 1e-5, 1e-5)

    def whole(lhs, rhs):
        out = jax.vmap(loss, in_axes=axes)(lhs, rhs, arrays[2])
        return jnp.sum(out)

    sums = jax.jit(jax.grad(whole, argnums=(0, 1)))(*arrays[:2])
    for part, wanted, axis in zip(sums, zip(*loop, strict=True), axes, strict=False):
        stacked = np.stack(wanted)
        stacked = stacked if axis == 0 else stacked.sum(0)
        np.testing.assert_allclose(part, stacked, 1e-5, 1e-5)


@pytest.mark.parametrize("bias_axis", [0, None])
@each_mapping
def test_grouped_gemm_vmap_with_bias_and_offset(device, axes, bias_axis):
    """Every mapping of a call with local groups, a bias and a mapped offset."""
    arrays = operands(axes, num_groups=2)
    rng = np.random.default_rng(1)
    bias = rng.standard_normal((BATCH, 2, N), np.float32)
    bias = bias if bias_axis == 0 else bias[0]

    def call(lhs, rhs, sizes, bias, offset):
        return gg.grouped_gemm(lhs, rhs, sizes, bias=bias, group_offset=offset)

    for offset, offset_axis in ((np.array([2, 0, 1]), 0), (jnp.int32(1), None)):
        all_axes = (*axes, bias_axis, offset_axis)
        every = (*arrays, bias, jnp.asarray(offset, jnp.int32))
        out = jax.jit(jax.vmap(call, in_axes=all_axes))(*every)
        for b in range(BATCH):
            wanted = call(*entry(every, all_axes, b))
            np.testing.assert_allclose(out[b], wanted, 1e-5, 1e-6)


@each_mapping
def test_grouped_gemm_vmap_bad_sizes_raise(device, axes):
    """Also where the bad size is one entry's, and its rows would be the next one's."""
    for bad in (-1, M + 1, 2**31 - 1, -(2**31)):
        arrays = operands(axes)
        arrays[2] = arrays[2].copy()
        arrays[2][(0, 1) if axes[2] == 0 else 1] = bad
        with pytest.raises(
            (ValueError, jax.errors.JaxRuntimeError), match="grouped_gemm: "
        ):
            jax.block_until_ready(
                jax.vmap(functools.partial(gg.grouped_gemm, mode="sync"), in_axes=axes)(
                    *arrays
                )
            )


@pytest.mark.parametrize("offset_axis", [0, None])
@each_mapping
def test_grouped_gemm_vmap_bad_offset_is_named(device, axes, offset_axis):
    """Also where the rows are reordered: argument, range and value are the call's."""
    arrays = operands(axes, num_groups=2)

    def call(lhs, rhs, sizes, offset):
        options = {"group_offset": offset, "mode": "sync", "name": "experts"}
        return jnp.sum(gg.grouped_gemm(lhs, rhs, sizes, **options))

    for bad in (-1, 2**31 - 1):
        offset = jnp.array([1, bad, -7], np.int32)
        offset = offset if offset_axis == 0 else offset[1]
        rule = f"group_offset must be in [0, 2]; got {bad} (call site experts)."
        for function in (call, jax.grad(call, argnums=1)):
            mapped = jax.vmap(function, in_axes=(*axes, offset_axis))
            with pytest.raises((ValueError, jax.errors.JaxRuntimeError)) as raised:
                jax.block_until_ready(mapped(*arrays, offset))
            assert rule in str(raised.value)


def test_grouped_gemm_vmap_bad_offset_of_a_narrow_type_is_named(device):
    """More groups than the type of the offset counts: none of them is bad for that."""
    num_sizes = 300
    rhs, sizes = np.ones((1, K, N), np.float32), np.zeros(num_sizes, np.int32)

    def call(offset):
        lhs = jnp.ones((2, K))
        return gg.grouped_gemm(lhs, rhs, sizes, group_offset=offset, mode="sync")

    assert jax.vmap(call)(jnp.array([100, 5], np.int8)).shape == (2, 2, N)
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError), match="got -3"):
        jax.block_until_ready(jax.vmap(call)(jnp.array([100, -3], np.int8)))


def test_grouped_gemm_vmap_bad_offset_leaves_groups_without_rows(device):
    """As without vmap, where errors are recorded only; other entries keep theirs."""
    first = jnp.array([1, -1, 3], np.int8)
    order = order_rows(jnp.asarray(SIZES), first, 2, M, by_group=False)
    np.testing.assert_array_equal(order.sizes, [0, 5, 0, 0, 2, 0, 0])
    order = order_rows(jnp.asarray(SIZES), first.at[2].set(100), 2, M, by_group=True)
    np.testing.assert_array_equal(order.sizes, [0, 5, 0])


def test_grouped_gemm_vmap_one_bad_entry_spares_the_others(device):
    """An entry past its rows takes none of its neighbour's, where errors are recorded
    only: seen in the sizes that the one product gets."""
    sizes = SIZES.copy()
    sizes[0] = [3, 20, 5, -1]
    order = order_rows(jnp.asarray(sizes), None, G, M, by_group=False)
    np.testing.assert_array_equal(order.sizes, [3, 8, 0, 0, 0, 0, 0, 0, 2, 7, 0, 2, -1])
    order = order_rows(jnp.asarray(sizes), None, G, M, by_group=True)
    np.testing.assert_array_equal(order.sizes, [5, 15, 0, 2, -1])


@each_mapping
def test_grouped_gemm_vmap_is_one_product_without_a_copy_of_weights(axes):
    arrays = operands(axes)
    text = jax.jit(jax.vmap(gg.grouped_gemm, in_axes=axes)).lower(*arrays).as_text()
    assert text.count("@graphsafe_gg_grouped_gemm") == 1
    assert "while" not in text
    calls = [line for line in text.splitlines() if "@graphsafe_gg_grouped_gemm" in line]
    groups = BATCH * G if axes[1] == 0 else G
    assert f"tensor<{groups}x{K}x{N}xf32>" in calls[0]
    for line in text.splitlines():
        if f"tensor<{BATCH}x{G}x{K}x{N}xf32>" in line:
            assert "reshape" in line or "func" in line, line


def test_grouped_gemm_vmap_nested_and_other_axes(device):
    rng = np.random.default_rng(0)
    lhs = rng.standard_normal((M, 2, K, BATCH), np.float32)
    rhs = rng.standard_normal((G, K, BATCH, N), np.float32)
    inner = jax.vmap(gg.grouped_gemm, in_axes=(1, None, None), out_axes=1)
    out = jax.vmap(inner, in_axes=(3, 2, 0), out_axes=2)(lhs, rhs, SIZES)
    for a, b in itertools.product(range(2), range(BATCH)):
        truth = reference_grouped_gemm(lhs[:, a, :, b], rhs[:, :, b], SIZES[b])
        assert_close(out[:, a, b], truth)


def test_grouped_gemm_vmap_of_copied_sizes(device):
    """A ticket cannot follow: the call makes its own copy."""

    def call(lhs, rhs, sizes):
        lhs, copied = gg.copy_group_sizes(sizes, before=lhs)
        return gg.grouped_gemm(lhs, rhs, copied, mode="async")

    arrays = operands((0, None, 0))
    out = jax.jit(jax.vmap(call, in_axes=(0, None, 0)))(*arrays)
    plain = jax.vmap(gg.grouped_gemm, in_axes=(0, None, 0))(*arrays)
    np.testing.assert_array_equal(out, plain)


def test_grouped_gemm_vmap_of_no_copies():
    copied = jax.vmap(gg.copy_group_sizes)(jnp.zeros((0, G), np.int32))
    one = gg.copy_group_sizes(jnp.zeros(G, np.int32))
    assert copied.ticket.shape == (0, *one.ticket.shape)


def test_grouped_gemm_vmap_of_a_stack(device):
    arrays = operands((0, None, None))
    stack = np.stack([arrays[1], -arrays[1]])

    def call(lhs, layer):
        return gg.grouped_gemm(lhs, stack, arrays[2], layer=layer)

    out = jax.vmap(call, in_axes=(0, None))(arrays[0], jnp.int32(1))
    plain = jax.vmap(call, in_axes=(0, None))(arrays[0], jnp.int32(0))
    np.testing.assert_array_equal(out, -plain)
    text = (
        "grouped_gemm: layer must be shared, and index a shared stack, under vmap; got "
        "a batched layer or stack. Take the layer's weights first: jnp.take(rhs, "
        "layer, axis=0)."
    )
    with raises_text(NotImplementedError, text):
        jax.vmap(call)(arrays[0], jnp.arange(BATCH) % 2)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32])
def test_grouped_gemm_vmap_of_narrow_and_unsigned_sizes(device, dtype):
    """Sizes times the batch may need more bits than the sizes."""
    rng = np.random.default_rng(0)
    lhs = rng.standard_normal((5, 120, K), np.float32)
    rhs = rng.standard_normal((2, K, N), np.float32)
    sizes = np.array([100, 20], dtype)
    out = jax.vmap(gg.grouped_gemm, in_axes=(0, None, None))(lhs, rhs, sizes)
    assert_batch_close(out, [reference_grouped_gemm(a, rhs, sizes) for a in lhs])


@each_mapping
def test_grouped_gemm_vmap_with_x64(device, axes):
    """The arithmetic of the rows stays in one type."""
    arrays = operands(axes)
    out = jax.vmap(gg.grouped_gemm, in_axes=axes)(*arrays)
    with jax.enable_x64(True):
        wide = jax.vmap(gg.grouped_gemm, in_axes=axes)(*arrays)
    np.testing.assert_array_equal(out, wide)


def test_grouped_gemm_vmap_of_nothing(device):
    axes = (0, 0, 0)
    arrays = [a[:0] for a in operands(axes)]
    assert jax.vmap(gg.grouped_gemm)(*arrays).shape == (0, M, N)
    lhs, rhs, sizes = operands(axes)
    assert jax.vmap(gg.grouped_gemm)(lhs[:, :0], rhs, sizes * 0).shape == (BATCH, 0, N)
    out = jax.vmap(gg.grouped_gemm)(lhs, rhs[:, :0], sizes[:, :0])
    np.testing.assert_array_equal(out, np.zeros((BATCH, M, N)))


@each_mapping
@pytest.mark.parametrize("empty", ["m", "k", "n"])
def test_grouped_gemm_vmap_of_an_empty_axis(device, axes, empty):
    lhs, rhs, sizes = operands(axes)
    lhs = {"m": lhs[..., :0, :], "k": lhs[..., :0], "n": lhs}[empty]
    rhs = {"m": rhs, "k": rhs[..., :0, :], "n": rhs[..., :0]}[empty]
    sizes = sizes * (empty != "m")

    def total(lhs, rhs):
        return jnp.sum(jax.vmap(gg.grouped_gemm, in_axes=axes)(lhs, rhs, sizes))

    value, gradients = jax.value_and_grad(total, argnums=(0, 1))(lhs, rhs)
    assert value == 0
    for gradient, operand in zip(gradients, (lhs, rhs), strict=True):
        np.testing.assert_array_equal(gradient, np.zeros(operand.shape))


def test_grouped_gemm_vmap_bias_is_rounded_once(device):
    """A mapped bias on shared weights: added in float32."""
    lhs, rhs, sizes = operands((0, None, 0), jnp.bfloat16)
    bias = np.random.default_rng(1).standard_normal((BATCH, G, N), np.float32)
    bias = bias.astype(jnp.bfloat16)

    def call(lhs, sizes, bias, dtype=None):
        return gg.grouped_gemm(lhs, rhs, sizes, bias=bias, preferred_element_type=dtype)

    narrow = jax.vmap(call)(lhs, sizes, bias)
    wide = jax.vmap(functools.partial(call, dtype=np.float32))(lhs, sizes, bias)
    np.testing.assert_array_equal(narrow, wide.astype(jnp.bfloat16))
