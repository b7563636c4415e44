# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K02: all or most rows in one expert."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close as assert_mlp_close
from support.mlp_reference import mlp_of_one_expert
from support.operands import MODES, random_operands
from support.platforms import is_cuda
from support.products import check_products

import graphsafe_gg as gg
from graphsafe_gg.mlp import routed_mlp


@pytest.mark.parametrize("mode", ["sync", "device"])
def test_p004_one_expert_takes_no_more_memory(device, mode):
    """P-004: one program serves every split; it allocates by shapes alone."""
    m, h, width, num_groups = (
        (65536, 1024, 2048, 64) if is_cuda(device) else (512, 16, 32, 16)
    )
    rng = np.random.default_rng(0)
    x, w_gate_up, w_down = (
        jnp.asarray(rng.standard_normal(shape, np.float32) / 8, jnp.bfloat16)
        for shape in (
            (m, h),
            (num_groups, h, width),
            (num_groups, width // 2, h),
        )
    )

    @jax.jit
    def step(x, w_gate_up, w_down, sizes):
        def loss(*operands):
            out = gg.grouped_mlp(*operands, sizes, mode=mode)
            return jnp.sum(out.astype(jnp.float32)), out

        return jax.grad(loss, (0, 1, 2), has_aux=True)(x, w_gate_up, w_down)

    def peak_bytes(sizes):
        grads, out = step(x, w_gate_up, w_down, np.asarray(sizes, np.int32))
        jax.block_until_ready(grads)
        stats = device.memory_stats() or {}
        return out, stats.get("peak_bytes_in_use", 0)

    # Twice, so that the first call's results are still held, as they are below.
    for _ in range(2):
        held, uniform = peak_bytes([m // num_groups] * num_groups)
    del held
    for owner in (0, num_groups - 1):
        sizes = np.zeros(num_groups, np.int32)
        sizes[owner] = m
        out, peak = peak_bytes(sizes)
        assert peak <= 1.1 * uniform
        rows = [0, 1, m // 2, m - 1]
        truth = mlp_of_one_expert(
            np.asarray(x)[rows], np.asarray(w_gate_up[owner]), np.asarray(w_down[owner])
        )
        assert_mlp_close(np.asarray(out)[rows], truth, jnp.bfloat16, h, width // 2)
    assert step._cache_size() == 1


@pytest.mark.parametrize("mode", MODES)
def test_p005_same_expert_in_every_slot(device, mode):
    """P-005: no bound on a group's rows: all 4096 are written and right."""
    num_tokens, top_k, num_experts, owner = 1024, 4, 8, 5
    sizes = np.zeros(num_experts, np.int32)
    sizes[owner] = num_tokens * top_k
    check_products(random_operands(sizes, None, 16, 24, jnp.bfloat16), mode=mode)


@pytest.mark.parametrize("mode", ["sync", "device"])
def test_p005_same_expert_in_every_slot_of_the_layer(device, mode):
    """P-005: the layer adds the expert's result once for each slot."""
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((1024, 16), np.float32)
    w_gate_up = rng.standard_normal((8, 16, 16), np.float32) / 4
    w_down = rng.standard_normal((8, 8, 16), np.float32) / 4
    expert_idx = np.full((1024, 4), 5, np.int32)
    weights = np.full((1024, 4), 0.25, np.float32)
    out = routed_mlp(tokens, expert_idx, weights, w_gate_up, w_down, mode=mode)
    truth = mlp_of_one_expert(tokens, w_gate_up[5], w_down[5])
    assert_mlp_close(out, truth, np.float32, 16, 8)
