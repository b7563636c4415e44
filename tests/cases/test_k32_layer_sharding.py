# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K32: the layers inside shard_map with JAX's default checks; two CPU devices.

P-100 is about the operation, which is what JAX cannot partition by itself.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from support.layer_case import TOP_K, G, assert_trees_close, random_layer

import graphsafe_gg as gg

modes = pytest.mark.parametrize("mode", ["device", "async"])


def mesh_of_two():
    return jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("x",))


def plain_loss(operands):
    return jnp.sum(gg.moe_mlp(*operands, top_k=TOP_K) ** 2)


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
