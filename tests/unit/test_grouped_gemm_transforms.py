# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm` inside JAX's control flow and compilation interfaces."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from support.operands import MODES, random_operands
from support.products import assert_products_close, run_products, truth_of

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, assert_close, reference_grouped_gemm

SIZES = np.array([3, 0, 9, 1], np.int32)
modes = pytest.mark.parametrize("mode", MODES)


def square_operands():
    return random_operands(SIZES, 15, 8, 8)


@modes
def test_grouped_gemm_transforms_while(device, mode):
    """A number of turns that only the device knows; the sizes rotate at each."""
    lhs, rhs, sizes, _ = square_operands()

    @jax.jit
    def repeat(lhs, rhs, sizes, turns):
        def body(state):
            turn, x, sizes = state
            x = jnp.tanh(gg.grouped_gemm(x, rhs, sizes, mode=mode))
            return turn + 1, x, jnp.roll(sizes, 1)

        state = jax.lax.while_loop(lambda s: s[0] < turns, body, (0, lhs, sizes))
        return state[1]

    for turns in (0, 1, 3):
        expected = lhs
        for turn in range(turns):
            expected = jnp.tanh(
                gg.grouped_gemm(expected, rhs, np.roll(sizes, turn), mode=mode)
            )
        assert_bit_equal(repeat(lhs, rhs, sizes, turns), expected)


@modes
def test_grouped_gemm_transforms_cond_with_gradient(device, mode):
    lhs, rhs, sizes, dout = square_operands()

    @jax.jit
    def either(is_first, lhs, rhs):
        def first(lhs, rhs):
            return gg.grouped_gemm(lhs, rhs, sizes, mode=mode)

        def second(lhs, rhs):
            return -gg.grouped_gemm(lhs, rhs, sizes[::-1].copy(), mode=mode)

        def call(lhs, rhs):
            return jax.lax.cond(is_first, first, second, lhs, rhs)

        out, pullback = jax.vjp(call, lhs, rhs)
        return out, *pullback(dout)

    operands = square_operands()
    assert_products_close(either(True, lhs, rhs), truth_of(operands))
    reverse = operands._replace(group_sizes=sizes[::-1])
    got = [-part for part in either(False, lhs, rhs)]
    assert_products_close(got, truth_of(reverse))


@modes
@pytest.mark.parametrize("policy", ["nothing", "everything", "dots", "names"])
def test_grouped_gemm_transforms_checkpoint_policies(device, mode, policy):
    """The gradient does not depend on what is kept."""
    lhs, rhs, sizes, _ = square_operands()
    policies = jax.checkpoint_policies
    chosen = {
        "nothing": policies.nothing_saveable,
        "everything": policies.everything_saveable,
        "dots": policies.dots_saveable,
        "names": policies.save_only_these_names("products"),
    }[policy]

    def block(lhs, rhs):
        out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode)
        out = checkpoint_name(out, "products")
        return jnp.sum(jnp.sin(gg.grouped_gemm(jnp.tanh(out), rhs, sizes, mode=mode)))

    def gradients(block):
        return jax.jit(jax.grad(block, argnums=(0, 1)))(lhs, rhs)

    kept = gradients(block)
    for got, wanted in zip(
        gradients(jax.checkpoint(block, policy=chosen)), kept, strict=True
    ):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-6)


def test_grouped_gemm_transforms_forward_mode(device):
    """jvp, jacfwd and linearize, against the bilinear form."""
    lhs, rhs, sizes, _ = square_operands()
    rng = np.random.default_rng(1)
    directions = tuple(rng.standard_normal(a.shape, np.float32) for a in (lhs, rhs))
    call = functools.partial(gg.grouped_gemm, group_sizes=sizes)
    tangent = jax.jvp(call, (lhs, rhs), directions)[1]
    expected = gg.grouped_gemm(directions[0], rhs, sizes)
    expected += gg.grouped_gemm(lhs, directions[1], sizes)
    np.testing.assert_allclose(tangent, expected, 1e-6, 1e-6)
    _, linear = jax.linearize(call, lhs, rhs)
    np.testing.assert_allclose(linear(*directions), expected, 1e-6, 1e-6)
    few = functools.partial(gg.grouped_gemm, group_sizes=np.array([2, 0, 1, 1]))
    jacobian = jax.jacfwd(few)(lhs[:5], rhs[:, :, :2])
    assert jacobian.shape == (5, 2, 5, 8)
    reverse = jax.jacrev(few)(lhs[:5], rhs[:, :, :2])
    np.testing.assert_allclose(jacobian, reverse, 1e-6, 1e-6)


@modes
def test_grouped_gemm_transforms_ahead_of_time(device, mode):
    """lower, compile, run; shapes suffice to compile."""
    operands = random_operands(SIZES, 15)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), operands)
    lowered = run_products.lower(*shapes, mode=mode)
    compiled = lowered.compile()
    assert_products_close(compiled(*operands), truth_of(operands))


@modes
def test_grouped_gemm_transforms_donation(device, mode):
    """The result may take the place of lhs, and a carried buffer that of the last."""
    lhs, rhs, sizes, _ = square_operands()

    @functools.partial(jax.jit, donate_argnums=0)
    def step(x, rhs, sizes):
        return gg.grouped_gemm(x, rhs, sizes, mode=mode)

    x = jax.device_put(lhs, device)
    expected = lhs
    for turn in range(3):
        given = x
        x = step(x, rhs, sizes)
        expected = np.asarray(gg.grouped_gemm(expected, rhs, sizes, mode=mode))
        assert_bit_equal(x, expected, f"turn {turn}")
        assert given.is_deleted()


@modes
def test_grouped_gemm_transforms_with_x64(device, mode):
    """64-bit sizes, offsets and layers are read by their own width."""
    lhs, rhs, sizes, _ = square_operands()
    with jax.enable_x64(True):
        stack = jnp.stack([rhs[1:3], 2 * rhs[1:3]])
        out = gg.grouped_gemm(
            lhs,
            stack,
            jnp.asarray(sizes, jnp.int64),
            group_offset=jnp.int64(1),
            layer=jnp.uint64(1),
            mode=mode,
        )
        assert out.dtype == jnp.float32
        truth = reference_grouped_gemm(lhs, 2 * rhs, sizes)
        part = truth._replace(
            value=np.where(np.arange(15)[:, None] < 3, 0, truth.value)
        )
        part.value[12:] = 0
        assert_close(out, part)


def test_grouped_gemm_transforms_keep_dtypes_with_x64(device):
    """No 64-bit value enters the program from a default type."""
    operands = random_operands(SIZES, 15)
    with jax.enable_x64(True):
        text = run_products.lower(*operands, mode="device").as_text()
    assert "f64" not in text
    assert_products_close(run_products(*operands, mode="device"), truth_of(operands))


def test_grouped_gemm_transforms_scan_of_checkpointed_layers(device):
    """A scan of checkpointed layers, as training steps are written."""
    lhs, rhs, sizes, _ = square_operands()
    stack = np.stack([rhs, 0.5 * rhs, -rhs])

    def loss(x, stack, wrap):
        @wrap
        def layer(x, weights):
            return jnp.tanh(gg.grouped_gemm(x, weights, sizes)), None

        return jnp.sum(jax.lax.scan(layer, x, stack)[0])

    def gradients(wrap):
        return jax.jit(jax.grad(functools.partial(loss, wrap=wrap), (0, 1)))(lhs, stack)

    for got, wanted in zip(
        gradients(jax.checkpoint), gradients(lambda layer: layer), strict=True
    ):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-6)


@modes
def test_grouped_gemm_transforms_without_jit(device, mode):
    operands = random_operands(SIZES, 15)
    with jax.disable_jit():
        assert_products_close(run_products(*operands, mode=mode), truth_of(operands))
