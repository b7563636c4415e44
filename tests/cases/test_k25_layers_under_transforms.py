# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K25: the layers under jvp, vmap, gradients of gradients, checkpoint and scan."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.layer_case import TOP_K, assert_trees_close, random_layer

import graphsafe_gg as gg
from graphsafe_gg.mlp import PRE_ACTIVATION

modes = pytest.mark.parametrize("mode", ["device", "async"])
POLICIES = (
    None,
    jax.checkpoint_policies.dots_saveable,
    jax.checkpoint_policies.save_only_these_names(PRE_ACTIVATION),
)


def loss_of(mode, recompute=False):
    def loss(operands):
        out = gg.moe_mlp(*operands, top_k=TOP_K, mode=mode, recompute=recompute)
        return jnp.sum(jnp.sin(out))

    return loss


@pytest.mark.parametrize(("mode", "recompute"), [("device", True), ("async", False)])
def test_p077_forward_mode_agrees_with_reverse_mode(device, mode, recompute):
    """P-077: jvp and linearize, and a gradient through a jvp."""
    operands, tangents = random_layer(), random_layer(seed=1)
    loss = loss_of(mode, recompute)
    gradient = jax.jit(jax.grad(loss))(operands)
    along = sum(np.vdot(g, t) for g, t in zip(gradient, tangents, strict=True))
    out, tangent = jax.jit(lambda p, t: jax.jvp(loss, (p,), (t,)))(operands, tangents)
    np.testing.assert_allclose(tangent, along, rtol=1e-4)
    linear_out, linear = jax.linearize(loss, operands)
    np.testing.assert_allclose(linear_out, out, rtol=1e-5)
    np.testing.assert_allclose(linear(tangents), along, rtol=1e-4)


@modes
def test_p077_gradient_of_a_gradient(device, mode):
    """P-077: reverse over reverse and reverse over forward are one number."""
    operands, tangents = random_layer(), random_layer(seed=1)
    loss = loss_of(mode)

    def along_by_reverse(operands):
        gradient = jax.grad(loss)(operands)
        return sum(jnp.vdot(g, t) for g, t in zip(gradient, tangents, strict=True))

    def along_by_forward(operands):
        return jax.jvp(loss, (operands,), (tangents,))[1]

    first = jax.jit(jax.grad(along_by_reverse))(operands)
    assert_trees_close(jax.jit(jax.grad(along_by_forward))(operands), first, 1e-4)


@pytest.mark.parametrize("is_shared", [False, True])
def test_p079_batched_layers(device, is_shared):
    """P-079: vmap over everything, and over tokens with shared experts."""
    batch = [random_layer(seed=seed) for seed in range(3)]
    if is_shared:
        batch = [layer._replace(w_gate_up=batch[0].w_gate_up) for layer in batch]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batch)
    axes = jax.tree.map(lambda _: 0, stacked)
    if is_shared:
        stacked = stacked._replace(w_gate_up=batch[0].w_gate_up)
        axes = axes._replace(w_gate_up=None)
    gradient = jax.grad(loss_of("device"))
    expected = jax.tree.map(lambda *a: jnp.stack(a), *map(jax.jit(gradient), batch))
    found = jax.jit(jax.vmap(gradient, in_axes=(axes,)))(stacked)
    assert_trees_close(found, expected)


@pytest.mark.parametrize(
    ("mode", "policy"), [*(("device", p) for p in POLICIES), ("async", None)]
)
def test_p078_checkpointed_layers_in_a_scan(device, mode, policy):
    """P-078: six layers, whatever is kept, have the gradients of a plain loop."""
    layers = [random_layer(seed=seed) for seed in range(6)]
    tokens = layers[0].tokens
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(x[1:] for x in layers))

    def block(tokens, layer):
        return tokens + gg.moe_mlp(tokens, *layer, top_k=TOP_K, mode=mode), None

    def by_scan(tokens, stacked):
        kept = jax.checkpoint(block, policy=policy)
        return jnp.sum(jax.lax.scan(kept, tokens, stacked)[0] ** 2)

    def by_loop(tokens, stacked):
        for layer in zip(*stacked, strict=True):
            tokens, _ = block(tokens, layer)
        return jnp.sum(tokens**2)

    found = jax.jit(jax.grad(by_scan, (0, 1)))(tokens, stacked)
    expected = jax.jit(jax.grad(by_loop, (0, 1)))(tokens, stacked)
    assert_trees_close(found, expected, 1e-4)
