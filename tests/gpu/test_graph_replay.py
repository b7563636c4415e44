# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Mode device under XLA's command buffers: captured once, replayed with other sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from support.growth import counters_of, growth
from support.operands import MODES, random_operands
from support.platforms import is_cuda
from support.products import (
    Products,
    assert_products_bit_equal,
    assert_products_close,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, dirty_memory, size_patterns

pytestmark = pytest.mark.gpu

M, K, N, G = 192, 64, 96, 8
ALL_SIZES = np.stack([*size_patterns(G, M).values(), *size_patterns(G, M, 1).values()])
NUM_SIZES = len(ALL_SIZES)


def stepper(mode, site, dtype=jnp.bfloat16):
    """A program that takes its sizes from a table, by a step that it counts itself.

    The step is donated, so that its address stays and the graph is replayed as it is.
    """
    operands = random_operands(ALL_SIZES[0], M, K, N, dtype)

    def step(step_idx, lhs, rhs, dout, table):
        # A slice would be fused into the call, with an offset that the host must know.
        is_row = jnp.arange(NUM_SIZES) == step_idx % NUM_SIZES
        sizes = jnp.sum(jnp.where(is_row[:, None], table, 0), axis=0)

        def call(lhs, rhs):
            return gg.grouped_gemm(lhs, rhs, sizes, mode=mode, name=site)

        out, pullback = jax.vjp(call, lhs, rhs)
        return step_idx + 1, Products(out, *pullback(dout))

    compiled = jax.jit(step, donate_argnums=0)
    lhs, rhs, _, dout, table = jax.device_put((*operands, ALL_SIZES))
    truths = [truth_of(operands._replace(group_sizes=sizes)) for sizes in ALL_SIZES]
    return lambda step_idx: compiled(step_idx, lhs, rhs, dout, table), truths


def test_graph_replay_runs_no_host_code_of_ours(device):
    """Executions grow with each step, launches do not; every step is right."""
    site = "replay.captured"
    step, truths = stepper("device", site)
    step_idx = jax.device_put(jnp.int32(0))
    for index in range(2 * NUM_SIZES):
        step_idx, products = step(step_idx)
        assert_products_close(products, truths[index % NUM_SIZES], f"step {index}: ")
        del products
    num_steps = 2 * NUM_SIZES
    with growth(device) as total, growth(device, site) as grown:
        for index in range(num_steps):
            step_idx, products = step(step_idx)
            assert_products_close(products, truths[index % NUM_SIZES])
            del products
    if is_cuda(device):
        assert counters_of(device, site)["captured_calls"] > 0
        assert grown.executions >= 3 * num_steps
        assert grown.eager_calls == grown.captured_calls == 0
        assert total.launches == 0
        assert total.host_waits == 0


@pytest.mark.parametrize("mode", MODES)
def test_graph_replay_bits_are_those_of_the_first_run(device, mode):
    """Eager at first, captured at second, replayed then: the same bits."""
    step, truths = stepper(mode, f"replay.bits.{mode}", jnp.float32)
    step_idx = jax.device_put(jnp.int32(0))
    first: dict[int, Products] = {}
    for index in range(4 * NUM_SIZES):
        step_idx, products = step(step_idx)
        which = index % NUM_SIZES
        products = jax.device_get(products)
        assert_products_close(products, truths[which])
        assert_products_bit_equal(products, first.setdefault(which, products))


def test_graph_replay_with_steps_in_flight(device):
    """No wait between steps: 60 results are read after the last one was launched."""
    step, truths = stepper("device", "replay.in_flight")
    step_idx = jax.device_put(jnp.int32(0))
    held = []
    for _ in range(60):
        step_idx, products = step(step_idx)
        held.append(products)
    for index, products in enumerate(held):
        assert_products_close(products, truths[index % NUM_SIZES], f"step {index}: ")


def test_graph_replay_survives_eviction(device):
    """Compiling another program drops all graphs: the next steps are right again."""
    step, truths = stepper("device", "replay.eviction")
    step_idx = jax.device_put(jnp.int32(0))
    for index in range(30):
        if index % 10 == 9:
            other = random_operands([4, index], 4 + index, 16, 8)
            run_products(*other, mode="device")
            dirty_memory(device)
        step_idx, products = step(step_idx)
        assert_products_close(products, truths[index % NUM_SIZES], f"step {index}: ")


def test_graph_replay_amid_other_work(device):
    """Fusions before and after the call, in one graph with it."""

    @jax.jit
    def layer(x, weights, sizes):
        x = jnp.tanh(x * 2)
        x = gg.grouped_gemm(x, weights, sizes, mode="device", name="replay.amid")
        return jnp.where(x > 0, x, x / 8) + 1

    lhs, rhs, _, _ = random_operands(ALL_SIZES[0], M, K, N)
    x, weights = jax.device_put((lhs, rhs))
    for sizes in [*ALL_SIZES, *ALL_SIZES[::-1]]:
        got = layer(x, weights, sizes)
        value = np.zeros((M, N))
        start = 0
        for group, size in enumerate(sizes):
            rows = slice(start, start + size)
            value[rows] = np.tanh(lhs[rows].astype(float) * 2) @ rhs[group]
            start += size
        want = np.where(value > 0, value, value / 8) + 1
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mode", MODES)
def test_graph_replay_in_a_scan(device, mode):
    """A body that is captured of its own, with other sizes in each turn and call."""
    layers = 4
    lhs, _, _, _ = random_operands([M], M, K, K)
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((layers, G, K, K), np.float32) / 8

    @jax.jit
    def stack(x, weights, all_sizes):
        def body(x, layer):
            weight, sizes = layer
            x = gg.grouped_gemm(x, weight, sizes, mode=mode, name="replay.scan")
            return x, x

        return lax.scan(body, x, (weights, all_sizes))[1]

    on_device = jax.device_put((lhs, weights))
    for call in range(8):
        sizes = ALL_SIZES[[(call + layer) % NUM_SIZES for layer in range(layers)]]
        got = stack(*on_device, sizes)
        x = jnp.asarray(lhs)
        for layer in range(layers):
            x = gg.grouped_gemm(x, weights[layer], sizes[layer], mode="device")
            assert_bit_equal(got[layer], x, what=f"call {call}, layer {layer}")


@pytest.mark.parametrize("mode", MODES)
def test_graph_replay_in_a_cond(device, mode):
    """Both branches in turn, each with a call of its own."""
    lhs, rhs, _, _ = random_operands(ALL_SIZES[0], M, K, N)
    wide = np.ascontiguousarray(rhs[::-1])

    @jax.jit
    def choose(is_first, x, first, second, sizes):
        def call(weights):
            return gg.grouped_gemm(x, weights, sizes, mode=mode, name="replay.cond")

        return lax.cond(is_first, lambda: call(first), lambda: call(second)) + 0

    x, first, second = jax.device_put((lhs, rhs, wide))
    for index in range(12):
        sizes = ALL_SIZES[index % NUM_SIZES]
        got = choose(np.bool_(index % 3 == 0), x, first, second, sizes)
        weights = first if index % 3 == 0 else second
        want = gg.grouped_gemm(x, weights, sizes, mode="device")
        np.testing.assert_array_equal(got, want, err_msg=f"call {index}")


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit])
def test_graph_replay_of_a_copy_in_a_cond(device, wrap):
    """Its ticket leaves the branch, and no call waits for it: captured with the cond,
    in whose body CUDA allows no event."""

    def copied(sizes):
        return gg.copy_group_sizes(sizes * 2).ticket

    @jax.jit
    def step(is_first, x, rhs, sizes):
        branches = wrap(copied), wrap(lambda sizes: copied(sizes + 1))
        x = gg.grouped_gemm(x, rhs, sizes, mode="device", name="replay.cond_copy")
        return lax.cond(is_first, *branches, sizes), x + 1

    lhs, rhs, _, _ = random_operands(ALL_SIZES[0], M, K, N)
    x, rhs = jax.device_put((lhs, rhs))
    for index in range(12):
        sizes = jnp.asarray(ALL_SIZES[index % NUM_SIZES], jnp.int32)
        is_first = np.bool_(index % 3 == 0)
        ticket, _ = step(is_first, x, rhs, sizes)
        want = np.asarray(sizes) * 2 if is_first else np.asarray(sizes + 1) * 2
        words = np.asarray(ticket)[-G:].view(np.int32)
        np.testing.assert_array_equal(words, want, err_msg=f"call {index}")


def test_graph_replay_of_a_moe_layer(device):
    """P-056: router, sort, sizes, both products and combine; 50 steps, new tokens."""
    t, h, f, experts, top_k = 64, 32, 48, 16, 4
    rng = np.random.default_rng(0)
    router = rng.standard_normal((h, experts), np.float32)
    w_gate_up = rng.standard_normal((experts, h, 2 * f), np.float32) / 6
    w_down = rng.standard_normal((experts, f, h), np.float32) / 6
    on_device = jax.device_put((router, w_gate_up, w_down))

    def layer(mode):
        def run(tokens, router, w_gate_up, w_down):
            logits = jnp.dot(tokens, router, precision="highest")
            return gg.moe_mlp(
                tokens, logits, w_gate_up, w_down, top_k=top_k, mode=mode, name="p056"
            )

        return jax.jit(run)

    captured, waiting = layer("device"), layer("sync")
    batches = [
        jax.device_put(rng.standard_normal((t, h), np.float32)) for _ in range(10)
    ]
    expected = [np.asarray(waiting(tokens, *on_device)) for tokens in batches]
    for _ in range(2):
        captured(batches[0], *on_device)
    with growth(device) as grown:
        results = [captured(batches[i % 10], *on_device) for i in range(50)]
        jax.block_until_ready(results)
    for index, got in enumerate(results):
        np.testing.assert_allclose(got, expected[index % 10], rtol=1e-5, atol=1e-5)
    if is_cuda(device):
        assert grown.host_waits == 0
