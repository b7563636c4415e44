# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K32: the layers on two CPU devices, under a plain jit and inside shard_map."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.layer_case import TOP_K, G, assert_trees_close, random_layer

import graphsafe_gg as gg

modes = pytest.mark.parametrize("mode", ["device", "async"])


def mesh_of_two():
    return jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("x",))


def plain_loss(operands):
    return jnp.sum(gg.moe_mlp(*operands, top_k=TOP_K) ** 2)


def put(layer, *specs):
    shardings = (NamedSharding(mesh_of_two(), spec) for spec in specs)
    return type(layer)(*map(jax.device_put, layer, shardings))


def test_p100_weights_split_over_f_stay_where_they_are():
    """P-100: no gathering of weights or rows, and right values and gradients."""
    layer = random_layer()
    halves = P(None, None, "x"), P(None, "x", None)
    split = put(layer, P(), P(), *halves)
    program = jax.jit(jax.value_and_grad(plain_loss)).lower(split).compile()
    assert "all-gather" not in program.as_text()
    assert_trees_close(program(split), jax.value_and_grad(plain_loss)(layer), 1e-4)


def test_p100_split_tokens_are_gathered_and_right():
    """P-100: a sort over all tokens needs them all; design/layers.md says so."""
    layer = random_layer()
    split = put(layer, P("x"), P("x"), P(), P())
    found = jax.jit(jax.value_and_grad(plain_loss))(split)
    assert_trees_close(found, jax.value_and_grad(plain_loss)(layer), 1e-4)


def test_p100_split_experts_are_refused():
    """P-100: names the way out."""
    split = put(random_layer(), P(), P(), P("x"), P("x"))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"Use jax\.shard_map"):
        jax.jit(plain_loss)(split)


@modes
def test_p101_tokens_on_each_device(mode):
    """P-101: data parallel; gradients of the shared weights are summed once."""
    layer = random_layer()
    rows = P("x")

    @jax.shard_map(mesh=mesh_of_two(), in_specs=(rows, rows, P(), P()), out_specs=P())
    def loss(*operands):
        out = gg.moe_mlp(*operands, top_k=TOP_K, mode=mode)
        return jax.lax.psum(jnp.sum(out**2), "x")

    found = jax.jit(jax.value_and_grad(lambda a: loss(*a)))(layer)
    assert_trees_close(found, jax.value_and_grad(plain_loss)(layer))


@modes
def test_p101_experts_on_each_device(mode):
    """P-101: expert parallel; numbers of the other device's experts are dropped."""
    layer = random_layer()

    @jax.shard_map(
        mesh=mesh_of_two(), in_specs=(P(), P(), P("x"), P("x")), out_specs=P()
    )
    def loss(tokens, logits, *experts):
        weights, expert_idx = gg.route(logits, TOP_K)
        local_idx = expert_idx - jax.lax.axis_index("x") * (G // 2)
        out = gg.routed_mlp(tokens, local_idx, weights, *experts, mode=mode)
        return jnp.sum(jax.lax.psum(out, "x") ** 2)

    found = jax.jit(jax.value_and_grad(lambda a: loss(*a)))(layer)
    assert_trees_close(found, jax.value_and_grad(plain_loss)(layer))
