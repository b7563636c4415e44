# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K19: what may be captured is, what may not stays out. Placement in command buffers,
seen without a GPU, is in tests/graph."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.counters import device_count, fallbacks_of, site_count
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import assert_products_close, truth_of

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

SIZES = np.array([5, 0, 17, 9, 0, 1, 30, 2], np.int32)


def surrounded(mode, name):
    """Three fusions, the call, two fusions."""

    @jax.jit
    def call(lhs, rhs, sizes):
        x = jnp.tanh(lhs) * 2.0
        if mode == "async":
            x, sizes = gg.copy_group_sizes(sizes, before=x)
        x = jnp.sin(x) + 1.0
        out = gg.grouped_gemm(x, rhs, sizes, mode=mode, name=name)
        return jnp.tanh(out) + 1.0

    return call


def surrounded_truth(operands):
    x = np.sin(np.tanh(operands.lhs.astype(np.float64)) * 2) + 1
    group = np.repeat(np.arange(len(SIZES)), SIZES)
    out = np.einsum("rk,rkn->rn", x, operands.rhs[group])
    return np.tanh(out) + 1


@pytest.mark.parametrize("mode", ["async", "device", "sync"])
def test_p053_only_device_mode_is_captured(device, mode):
    """P-053: every mode is right between fusions; waiting ones are never captured."""
    name = f"p053.{mode}"
    call = surrounded(mode, name)
    lhs, rhs, sizes, _ = operands = random_operands(SIZES, 64, 24, 40)
    on_device = jax.device_put((lhs, rhs, sizes))
    truth = surrounded_truth(operands)
    for _ in range(4):
        assert np.abs(np.asarray(call(*on_device)) - truth).max() < 1e-3
    if is_cuda(device):
        is_captured = site_count(name, "captured_calls") > 0
        assert is_captured == (mode == "device")


@pytest.mark.gpu
def test_p054_replays_call_no_handler(device):
    """P-054: executions go on, calls of the handler do not."""
    name = "p054"
    call = surrounded("device", name)
    lhs, rhs, sizes, _ = random_operands(SIZES, 64, 24, 40)
    on_device = jax.device_put((lhs, rhs, sizes))
    donated = jax.jit(call)
    for _ in range(3):
        jax.block_until_ready(donated(*on_device))
    if not is_cuda(device):
        return
    before = [site_count(name, c) for c in ("executions", "captured_calls")]
    for _ in range(20):
        jax.block_until_ready(donated(*on_device))
    after = [site_count(name, c) for c in ("executions", "captured_calls")]
    assert after[0] >= before[0] + 20
    assert after[1] <= before[1] + 16
    assert site_count(name, "eager_calls") <= 1


@pytest.mark.gpu
def test_p053_early_copy_is_captured(device):
    """P-053: the copy stands inside the graph, the GEMM behind it."""
    before = device_count("captured_copies")
    call = surrounded("async", "p053.copy")
    lhs, rhs, sizes, _ = random_operands(SIZES, 64, 24, 40)
    on_device = jax.device_put((lhs, rhs, sizes))
    for _ in range(4):
        jax.block_until_ready(call(*on_device))
    if is_cuda(device):
        assert device_count("captured_copies") > before
        assert fallbacks_of("p053.copy") == {}


def test_p055_first_call_inside_a_traced_program(device):
    """P-055: auto needs no earlier eager call."""
    operands = random_operands(SIZES, 64, 16, 32, seed=5)
    call = surrounded("auto", "p055")
    out = np.asarray(call(*jax.device_put(operands[:3])))
    assert np.abs(out - surrounded_truth(operands)).max() < 1e-3


def test_p056_moe_layer_without_host_waits(device):
    """P-056: a whole layer under one jit, new tokens at each of 50 steps."""
    rng = np.random.default_rng(0)
    tokens, hidden, width, experts, top_k = 32, 16, 8, 8, 2
    router = rng.standard_normal((hidden, experts), np.float32)
    w_gate_up = rng.standard_normal((experts, hidden, 2 * width), np.float32)
    w_down = rng.standard_normal((experts, width, hidden), np.float32)

    def layer(x, mode):
        return gg.moe_mlp(
            x, x @ router, w_gate_up, w_down, top_k=top_k, mode=mode, name="p056"
        )

    step = jax.jit(lambda x: layer(x, "device"))
    plain = jax.jit(lambda x: layer(x, "sync"))
    waits = site_count("p056.gate_up", "host_waits")
    for _ in range(50):
        x = jnp.asarray(rng.standard_normal((tokens, hidden), np.float32))
        got = step(x)
        if is_cuda(device):
            assert site_count("p056.gate_up", "host_waits") == waits
        assert_bit_equal(got, plain(x))
        waits = site_count("p056.gate_up", "host_waits")


def test_p053_gradients_of_async(device):
    """P-053: the backward pass makes its own copies and is right."""
    operands = random_operands(SIZES, 64, 24, 40)
    lhs, rhs, sizes, dout = jax.device_put(operands)

    @jax.jit
    def products(lhs, rhs, sizes, dout):
        def call(lhs, rhs):
            x, copied = gg.copy_group_sizes(sizes, before=lhs)
            return gg.grouped_gemm(x, rhs, copied, mode="async", name="p053.grad")

        out, pullback = jax.vjp(call, lhs, rhs)
        return (out, *pullback(dout))

    for _ in range(3):
        assert_products_close(products(lhs, rhs, sizes, dout), truth_of(operands))
