# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K21: what graphs hold stays valid, and does not grow."""

import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import assert_products_close, run_products, truth_of

import graphsafe_gg as gg


@pytest.mark.parametrize("mode", ["device", "async"])
def test_p062_small_after_big(device, mode):
    """P-062: a bigger call frees nothing that the small one's graph uses."""
    rng = np.random.default_rng(0)
    small = random_operands([10, 0, 50, 4], 64, 32, 32)
    rows = 65536 if is_cuda(device) else 2048
    sizes = rng.multinomial(rows, np.ones(256) / 256).astype(np.int32)
    big = random_operands(sizes, rows, 32, 32)
    truth = truth_of(small)
    held = jax.device_put(small)
    for _ in range(3):
        assert_products_close(run_products(*held, mode=mode), truth)
    assert_products_close(run_products(*jax.device_put(big), mode=mode), truth_of(big))
    for _ in range(100 if is_cuda(device) else 5):
        assert_products_close(run_products(*held, mode=mode), truth)


def stacked(num_layers, use_scan):
    hidden, width, experts = 64, 32, 8

    def layer(x, weights):
        sizes = jnp.full((experts,), x.shape[0] // experts, jnp.int32)
        return gg.grouped_mlp(x, *weights, sizes, mode="device"), None

    def unrolled(x, weights):
        for i in range(num_layers):
            x, _ = layer(x, jax.tree.map(lambda w, i=i: w[i], weights))
        return x

    def scanned(x, weights):
        return jax.lax.scan(layer, x, weights)[0]

    shapes = (
        jax.ShapeDtypeStruct((256, hidden), jnp.float32),
        (
            jax.ShapeDtypeStruct((num_layers, experts, hidden, 2 * width), jnp.float32),
            jax.ShapeDtypeStruct((num_layers, experts, width, hidden), jnp.float32),
        ),
    )
    return jax.jit(scanned if use_scan else unrolled).lower(*shapes).compile()


@pytest.mark.gpu
@pytest.mark.parametrize("use_scan", [False, True])
def test_p063_memory_does_not_grow_with_layers(device, use_scan):
    """P-063: 24 layers need no more temporary memory than 4."""
    few, many = (stacked(n, use_scan).memory_analysis() for n in (4, 24))
    layer_bytes = 8 * (64 * 64 + 32 * 64) * 4
    grown = many.temp_size_in_bytes - few.temp_size_in_bytes
    # XLA may slice the weights of each layer out of the stack.
    assert grown <= 20 * layer_bytes


@pytest.mark.gpu
@pytest.mark.slow
def test_p064_resident_memory_is_flat(device):
    """P-064: thousands of calls whose buffers alternate, so that graphs are updated."""
    a = jax.device_put(random_operands([10, 0, 50, 4], 64, 32, 32, seed=1))
    b = jax.device_put(random_operands([0, 30, 4, 30], 64, 32, 32, seed=2))

    @jax.jit
    def call(lhs, rhs, sizes):
        return gg.grouped_gemm(lhs, rhs, sizes, mode="device", name="p064")

    @jax.jit
    def plain(lhs, rhs, sizes):
        return lhs @ rhs[0] + sizes[0].astype(lhs.dtype)

    def growth(function, num_calls):
        for i in range(1000):
            function(*(a, b)[i % 2][:3])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(num_calls):
            out = function(*(a, b)[i % 2][:3])
        jax.block_until_ready(out)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    num_calls = 10_000 if is_cuda(device) else 200
    baseline_kb = growth(plain, num_calls)
    assert growth(call, num_calls) <= max(baseline_kb, 0) + 1024
