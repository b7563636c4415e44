# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Derivatives of `grouped_gemm`: every order and mode, under checkpoint and scan."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.products import assert_products_bit_equal, run_products, truth_of

import graphsafe_gg as gg
from graphsafe_gg.testing import (
    Truth,
    assert_bit_equal,
    assert_close,
    reference_drhs,
    reference_grouped_gemm,
)

SIZES = np.array([5, 0, 17, 9], np.int32)
M, K, N = 40, 12, 20

transposes = pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
modes = pytest.mark.parametrize("mode", MODES)


def operands_of(dtype=jnp.float32, transpose_rhs=False, **options):
    return random_operands(
        SIZES, M, K, N, dtype, transpose_rhs=transpose_rhs, **options
    )


def sum_of(*truths: Truth) -> Truth:
    """The truth of a sum of products that are computed and rounded one by one."""
    return Truth(
        sum(truth.value for truth in truths),
        sum(truth.magnitude for truth in truths),
        sum(truth.num_terms for truth in truths) + len(truths),
    )


@transposes
@modes
def test_grouped_gemm_grad_of_a_loss(device, mode, transpose_rhs):
    lhs, rhs, sizes, dout = operands_of(transpose_rhs=transpose_rhs)

    @jax.jit
    def loss(lhs, rhs):
        out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode, transpose_rhs=transpose_rhs)
        return jnp.sum(out * dout)

    truth = truth_of(operands_of(transpose_rhs=transpose_rhs), transpose_rhs)
    value, (dlhs, drhs) = jax.value_and_grad(loss, argnums=(0, 1))(lhs, rhs)
    assert_close(dlhs, truth.dlhs)
    assert_close(drhs, truth.drhs)
    np.testing.assert_allclose(value, np.sum(truth.out.value * dout), rtol=1e-4)


@pytest.mark.parametrize("argnum", [0, 1])
@modes
def test_grouped_gemm_grad_of_one_operand(device, mode, argnum):
    """Asking for one gradient computes that one, not both, and not the result."""
    lhs, rhs, sizes, dout = operands_of()

    def loss(lhs, rhs):
        return jnp.sum(gg.grouped_gemm(lhs, rhs, sizes, mode=mode) * dout)

    grad = jax.jit(jax.grad(loss, argnum))
    truth = truth_of(operands_of())
    assert_close(grad(lhs, rhs), truth.dlhs if argnum == 0 else truth.drhs)
    text = grad.lower(lhs, rhs).compile().as_text()
    target = r'custom_call_target="graphsafe_gg_(?:grouped_gemm|drhs)_'
    assert len(re.findall(target, text)) == 1


@transposes
def test_grouped_gemm_grad_transposes_nothing_in_memory(device, transpose_rhs):
    operands = operands_of(transpose_rhs=transpose_rhs)
    lowered = run_products.lower(*operands, transpose_rhs=transpose_rhs)
    assert "stablehlo.transpose" not in lowered.as_text()
    assert not re.search(r"= \S+ transpose\(", lowered.compile().as_text())


@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@modes
def test_grouped_gemm_grad_cotangent_type(device, mode, dtype, out_dtype):
    """A cotangent of another type is rounded once, to the operands' type."""
    operands = operands_of(dtype, out_dtype=out_dtype)
    rounded = operands._replace(dout=operands.dout.astype(dtype))
    wide = run_products(*operands, mode=mode, preferred_element_type=out_dtype)
    plain = run_products(*rounded, mode=mode)
    assert_bit_equal(wide.dlhs, plain.dlhs)
    assert_bit_equal(wide.drhs, plain.drhs)


@modes
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_grouped_gemm_grad_under_checkpoint(device, mode, dtype):
    """Recomputing gives the gradients of the plain call, bit for bit."""
    operands = operands_of(dtype)
    lhs, rhs, sizes, dout = operands

    def call(lhs, rhs):
        return jnp.tanh(gg.grouped_gemm(lhs, rhs, sizes, mode=mode))

    def gradients(function):
        _, pullback = jax.vjp(function, lhs, rhs)
        return pullback(jnp.asarray(dout))

    plain = jax.jit(lambda: gradients(call))()
    recomputed = jax.jit(lambda: gradients(jax.checkpoint(call)))()
    jax.tree.map(assert_bit_equal, recomputed, plain)


@modes
def test_grouped_gemm_grad_under_scan(device, mode):
    """Layers in a scan, each with its own weights and sizes; gradients of all."""
    num_layers, m, k = 3, 24, 16
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, k), np.float32)
    weights = rng.standard_normal((num_layers, 3, k, k), np.float32) / 4
    sizes = np.array([[5, 0, 19], [8, 8, 0], [0, 0, 24]], np.int32)

    def layer(x, weight_and_sizes):
        weight, size = weight_and_sizes
        return gg.grouped_gemm(x, weight, size, mode=mode), None

    def scanned(x, weights):
        return jnp.sum(jax.lax.scan(layer, x, (weights, sizes))[0] ** 2)

    def unrolled(x, weights):
        for weight, size in zip(weights, sizes, strict=True):
            x, _ = layer(x, (weight, size))
        return jnp.sum(x**2)

    in_scan = jax.jit(jax.value_and_grad(scanned, (0, 1)))(x, weights)
    in_line = jax.jit(jax.value_and_grad(unrolled, (0, 1)))(x, weights)
    for got, want in zip(
        jax.tree.leaves(in_scan), jax.tree.leaves(in_line), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    # The float64 chain, so that both cannot be wrong together.
    truth = x.astype(np.float64)
    for weight, size in zip(weights, sizes, strict=True):
        truth = reference_grouped_gemm(truth, weight, size).value
    np.testing.assert_allclose(in_scan[0], np.sum(truth**2), rtol=1e-4)


@modes
def test_grouped_gemm_grad_inside_scan_body(device, mode):
    """A gradient taken in the body: both products run in each iteration."""
    lhs, rhs, _, dout = operands_of()
    all_sizes = np.array([[5, 0, 17, 9], [0, 40, 0, 0], [0, 0, 0, 0]], np.int32)

    def body(carry, sizes):
        return carry, run_products(lhs, rhs, sizes, dout, mode=mode)

    _, stacked = jax.jit(lambda: jax.lax.scan(body, 0, all_sizes))()
    for layer, sizes in enumerate(all_sizes):
        direct = run_products(lhs, rhs, sizes, dout, mode=mode)
        assert_products_bit_equal(
            jax.tree.map(lambda a, i=layer: a[i], stacked), direct
        )


@transposes
@modes
def test_grouped_gemm_grad_jvp(device, mode, transpose_rhs):
    """The derivative along a direction is the sum over the two operands."""
    lhs, rhs, sizes, _ = operands_of(transpose_rhs=transpose_rhs)
    dlhs, drhs, *_ = operands_of(transpose_rhs=transpose_rhs, seed=1)

    def call(lhs, rhs):
        return gg.grouped_gemm(lhs, rhs, sizes, mode=mode, transpose_rhs=transpose_rhs)

    out, tangent = jax.jit(lambda *t: jax.jvp(call, t[:2], t[2:]))(lhs, rhs, dlhs, drhs)
    options = {"transpose_rhs": transpose_rhs}
    assert_close(out, reference_grouped_gemm(lhs, rhs, sizes, **options))
    truth = sum_of(
        reference_grouped_gemm(dlhs, rhs, sizes, **options),
        reference_grouped_gemm(lhs, drhs, sizes, **options),
    )
    assert_close(tangent, truth)
    # One operand at a time: the other tangent is a symbolic zero.
    for argnum, direction in ((0, dlhs), (1, drhs)):
        _, single = jax.jvp(
            lambda x, i=argnum: call(*((x, rhs) if i == 0 else (lhs, x))),
            ((lhs, rhs)[argnum],),
            (direction,),
        )
        first, second = (direction, rhs) if argnum == 0 else (lhs, direction)
        assert_close(single, reference_grouped_gemm(first, second, sizes, **options))


@modes
@pytest.mark.parametrize("argnum", [0, 1])
def test_grouped_gemm_grad_finite_differences(device, mode, argnum):
    """Against central differences of the float64 reference, element by element."""
    operands = random_operands([2, 0, 3], 6, 3, 4)
    lhs, rhs, sizes, dout = operands
    grads = run_products(*operands, mode=mode)

    def loss(moved):
        first, second = (moved, rhs) if argnum == 0 else (lhs, moved)
        return np.sum(reference_grouped_gemm(first, second, sizes).value * dout)

    base = (lhs, rhs)[argnum].astype(np.float64)
    numeric = np.zeros_like(base)
    for at in np.ndindex(base.shape):
        step = np.zeros_like(base)
        step[at] = 0.5
        numeric[at] = loss(base + step) - loss(base - step)
    got = grads.dlhs if argnum == 0 else grads.drhs
    np.testing.assert_allclose(got, numeric, rtol=2e-6, atol=2e-6)


@transposes
@modes
def test_grouped_gemm_grad_of_grad(device, mode, transpose_rhs):
    """Second derivatives, against the closed form of a bilinear function.

    For f(a, b) = sum(c * (a . b)) the Hessian's mixed part along (u, v) is
    (c . v^T, u^T . c), the gradients of f at (u, v).
    """
    lhs, rhs, sizes, dout = operands_of(transpose_rhs=transpose_rhs)
    u, v, *_ = operands_of(transpose_rhs=transpose_rhs, seed=1)

    def loss(lhs, rhs):
        out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode, transpose_rhs=transpose_rhs)
        return jnp.sum(out * dout)

    gradient = jax.grad(loss, (0, 1))

    def directional(lhs, rhs):
        dlhs, drhs = gradient(lhs, rhs)
        return jnp.sum(dlhs * u) + jnp.sum(drhs * v)

    reverse_over_reverse = jax.jit(jax.grad(directional, (0, 1)))(lhs, rhs)
    forward_over_reverse = jax.jit(lambda *t: jax.jvp(gradient, t[:2], t[2:])[1])(
        lhs, rhs, u, v
    )
    at_direction = random_operands(SIZES, M, K, N, transpose_rhs=transpose_rhs)
    truth = truth_of(at_direction._replace(lhs=u, rhs=v), transpose_rhs)
    for second in (reverse_over_reverse, forward_over_reverse):
        assert_close(second[0], truth.dlhs)
        assert_close(second[1], truth.drhs)


@modes
def test_grouped_gemm_grad_of_the_weight_gradient(device, mode):
    """The weight gradient is differentiable in both of its operands."""
    lhs, rhs, sizes, dout = operands_of()
    cotangent = operands_of(seed=1).rhs

    def drhs(lhs, dout):
        def call(rhs):
            return gg.grouped_gemm(lhs, rhs, sizes, mode=mode)

        return jax.vjp(call, rhs)[1](dout)[0]

    value, pullback = jax.vjp(drhs, lhs, dout)
    assert_close(value, reference_drhs(lhs, dout, sizes))
    for_lhs, for_dout = pullback(jnp.asarray(cotangent))
    assert_close(
        for_lhs, reference_grouped_gemm(dout, cotangent, sizes, transpose_rhs=True)
    )
    assert_close(for_dout, reference_grouped_gemm(lhs, cotangent, sizes))


@modes
def test_grouped_gemm_grad_third_order(device, mode):
    """A bilinear function has no third derivative, in any order of modes."""
    lhs, rhs, sizes, dout = operands_of()

    def along(rhs):
        return jnp.sum(gg.grouped_gemm(lhs, rhs, sizes, mode=mode) * dout) ** 2

    hessian_vector = jax.grad(lambda r: jnp.vdot(jax.grad(along)(r), r))
    third = jax.grad(lambda r: jnp.vdot(hessian_vector(r), r))(rhs)
    # For s(r)^2 with s linear: grad is 2 s g, and each step doubles it.
    first = jax.grad(along)(rhs)
    np.testing.assert_allclose(third, 4 * first, rtol=1e-4, atol=1e-2)


@modes
def test_grouped_gemm_grad_linearize(device, mode):
    lhs, rhs, sizes, _ = operands_of()
    direction = operands_of(seed=1).lhs
    out, linear = jax.linearize(
        lambda lhs: gg.grouped_gemm(lhs, rhs, sizes, mode=mode), lhs
    )
    assert_close(out, reference_grouped_gemm(lhs, rhs, sizes))
    assert_close(linear(direction), reference_grouped_gemm(direction, rhs, sizes))


def test_grouped_gemm_grad_sizes_have_none(device):
    lhs, rhs, sizes, dout = operands_of()
    _, pullback = jax.vjp(gg.grouped_gemm, lhs, rhs, sizes)
    *_, dsizes = pullback(jnp.asarray(dout))
    assert dsizes.dtype == jax.dtypes.float0


@modes
def test_grouped_gemm_grad_unused_result(device, mode):
    """A result that reaches no loss has zero gradients."""
    lhs, rhs, sizes, _ = operands_of()

    def loss(lhs, rhs):
        return jnp.sum(lhs) + 0.0 * jnp.sum(
            jax.lax.stop_gradient(gg.grouped_gemm(lhs, rhs, sizes, mode=mode))
        )

    dlhs, drhs = jax.grad(loss, (0, 1))(lhs, rhs)
    assert_bit_equal(dlhs, np.ones_like(lhs))
    assert_bit_equal(drhs, np.zeros_like(rhs))
