# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K25: the operation under autodiff and transformations. The layers have their own."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import MODES, random_operands

import graphsafe_gg as gg

M, K, G = 16, 8, 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("has_own_sizes", [False, True])
def test_p076_gradient_of_a_mapped_scan(device, mode, has_own_sizes):
    """P-076: x mapped, weights shared; equal to a loop, and the sum over it."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, M, K), np.float32)
    w = rng.standard_normal((G, K, K), np.float32)
    sizes = np.array([[10, 6], [0, 16], [3, 9]], np.int32)
    sizes = sizes if has_own_sizes else sizes[0]

    def scanned(x, w, sizes):
        def body(x, _):
            return jnp.tanh(gg.grouped_gemm(x, w, sizes, mode=mode)), None

        return jnp.sum(jax.lax.scan(body, x, None, length=2)[0])

    axis = 0 if has_own_sizes else None

    def loss(x, w):
        return jnp.sum(jax.vmap(scanned, (0, None, axis))(x, w, sizes))

    dx, dw = jax.jit(jax.grad(loss, (0, 1)))(x, w)
    assert dw.shape == w.shape
    each = [
        jax.grad(scanned, (0, 1))(x[b], w, sizes[b] if has_own_sizes else sizes)
        for b in range(3)
    ]
    np.testing.assert_allclose(dx, np.stack([a for a, _ in each]), 1e-5, 1e-5)
    np.testing.assert_allclose(dw, sum(b for _, b in each), 1e-5, 1e-5)


def test_p077_forward_mode_and_second_derivatives(device):
    """P-077: hessian and the gradient of a gradient agree; linearize is the jvp."""
    lhs, rhs, sizes, _ = random_operands([2, 1], 3, 2, 2)

    def loss(rhs):
        return jnp.sum(jnp.sin(gg.grouped_gemm(lhs, rhs, sizes)))

    forward = jax.hessian(loss)(rhs)
    reverse = jax.jacrev(jax.grad(loss))(rhs)
    np.testing.assert_allclose(forward, reverse, 1e-5, 1e-6)
    value, linear = jax.linearize(loss, rhs)
    np.testing.assert_allclose(linear(rhs), jax.jvp(loss, (rhs,), (rhs,))[1], 1e-5)
    np.testing.assert_allclose(value, loss(rhs), 1e-6)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_p079_nested_maps_and_maps_of_sizes_alone(device, batch):
    """P-079: vmap of jacrev, of vmap, and over sizes only."""
    lhs, rhs, sizes, _ = random_operands([2, 1], 4, 3, 2)
    many = np.broadcast_to(sizes, (batch, G))
    out = jax.vmap(gg.grouped_gemm, (None, None, 0))(lhs, rhs, many)
    assert out.shape == (batch, 4, 2)
    plain = gg.grouped_gemm(lhs, rhs, sizes)
    np.testing.assert_array_equal(out, np.broadcast_to(plain, out.shape))
    nested = jax.vmap(jax.vmap(gg.grouped_gemm, (None, None, 0)), (None, None, 0))
    out = nested(lhs, rhs, many[None])
    assert out.shape == (1, batch, 4, 2)
    jacobian = jax.vmap(jax.jacrev(gg.grouped_gemm), (0, None, None))
    rows = np.broadcast_to(lhs, (batch, 4, 3))
    assert jacobian(rows, rhs, sizes).shape == (batch, 4, 2, 4, 3)


@pytest.mark.slow
def test_p080_a_map_costs_about_as_much_as_one_product(device):
    """P-080: 16 entries with sizes of their own against 16 x G groups in one call;
    integers have a float0 cotangent."""
    rng = np.random.default_rng(0)
    lhs = rng.standard_normal((16, 512, 256), np.float32)
    rhs = rng.standard_normal((16, 4, 256, 256), np.float32)
    sizes = rng.multinomial(512, np.full(4, 0.25), size=16).astype(np.int32)
    mapped = jax.jit(jax.vmap(gg.grouped_gemm))
    single = jax.jit(gg.grouped_gemm)
    flat = (lhs.reshape(-1, 256), rhs.reshape(-1, 256, 256), sizes.reshape(-1))
    np.testing.assert_array_equal(
        mapped(lhs, rhs, sizes).reshape(-1, 256), single(*flat)
    )

    def seconds(call, operands):
        operands = jax.device_put(operands)
        times = []
        for _ in range(7):
            start = time.perf_counter()
            jax.block_until_ready(call(*operands))
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(mapped, (lhs, rhs, sizes)) <= 4 * seconds(single, flat)
    _, pullback = jax.vjp(jax.vmap(gg.grouped_gemm), lhs, rhs, sizes)
    assert pullback(np.ones((16, 512, 256), np.float32))[2].dtype == jax.dtypes.float0
