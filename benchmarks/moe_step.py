# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A step of MoE layers from the package's public pieces, in every mode, and in the way
of TransformerEngine's pull request 2213, reimplemented: the copy of the sizes is issued
right after they are made, outside the graph, with a data edge to the GEMM and nothing
that holds it early."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import graphsafe_gg as gg
from graphsafe_gg.mlp.permute import permute, unpermute
from graphsafe_gg.mlp.routing import route

MODES = ("sync", "pr2213", "async", "device")


@dataclasses.dataclass(frozen=True)
class StepCase:
    """One row of the suite. `num_local` < `num_experts` is one rank of expert
    parallelism: choices of other ranks' experts are dropped."""

    name: str
    num_layers: int
    num_tokens: int
    num_experts: int
    num_local: int
    top_k: int
    hidden: int
    intermediate: int
    has_shared_expert: bool = False


class Layer(NamedTuple):
    router: jax.Array
    w_gate_up: jax.Array
    w_down: jax.Array
    shared_gate_up: jax.Array | None
    shared_down: jax.Array | None


class State(NamedTuple):
    step: jax.Array
    tokens: jax.Array


def make_layer(case: StepCase, key) -> Layer:
    keys = jax.random.split(key, 5)
    h, f, g = case.hidden, case.intermediate, case.num_local

    def normal(key, shape, fan_in):
        return (jax.random.normal(key, shape) * fan_in**-0.5).astype(jnp.bfloat16)

    shared = (None, None)
    if case.has_shared_expert:
        shared = (normal(keys[3], (h, 2 * f), h), normal(keys[4], (f, h), f))
    return Layer(
        jax.random.normal(keys[0], (h, case.num_experts)) * h**-0.5,
        normal(keys[1], (g, h, 2 * f), h),
        normal(keys[2], (g, f, h), f),
        *shared,
    )


def gated(x):
    gate, up = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return (jax.nn.silu(gate) * up).astype(x.dtype)


def late_copy(sizes: jax.Array) -> gg.GroupSizes:
    """The copy of pull request 2213: not captured, held by nothing."""
    words = gg.copy_group_sizes(sizes).ticket.shape
    call = jax.ffi.ffi_call(
        "graphsafe_gg_group_sizes_copy_uncaptured_v1",
        jax.ShapeDtypeStruct(words, jnp.uint32),
    )
    return gg.GroupSizes(sizes, call(sizes))


def moe_layer(case: StepCase, mode: str, name: str, tokens, layer: Layer):
    wide = tokens.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    normed = (wide * scale).astype(tokens.dtype)
    weights, expert_idx = route(wide * scale @ layer.router, case.top_k)
    expert_idx = jnp.where(expert_idx < case.num_local, expert_idx, -1)
    if mode == "async":
        normed, copied = gg.group_sizes_of(expert_idx, case.num_local, before=normed)
    rows, sizes, permutation = permute(normed, expert_idx, case.num_local)
    if mode == "async":
        sizes = copied
    if mode == "pr2213":
        sizes = late_copy(sizes)
    rows = gg.grouped_mlp(
        rows,
        layer.w_gate_up,
        layer.w_down,
        sizes,
        mode="async" if mode == "pr2213" else mode,
        name=name,
    )
    out = unpermute(rows, permutation, weights)
    if layer.shared_gate_up is not None:
        out = out + gated(normed @ layer.shared_gate_up) @ layer.shared_down
    return tokens + out


def make_step(case: StepCase, mode: str):
    """jitted (state, inputs (steps, t, h), layers) -> state; the state is donated, so
    that addresses stay and graphs are replayed."""

    def step(state, inputs, layers):
        index = jax.lax.rem(state.step, jnp.int32(inputs.shape[0]))
        tokens = jax.lax.dynamic_index_in_dim(inputs, index, 0, keepdims=False)
        for i, layer in enumerate(layers):
            tokens = moe_layer(case, mode, f"step.{mode}.{i}", tokens, layer)
        return State(state.step + 1, tokens)

    return jax.jit(step, donate_argnums=0)


def make_inputs(case: StepCase, num_steps: int, seed: int = 0):
    shape = (num_steps, case.num_tokens, case.hidden)
    return jax.random.normal(jax.random.key(seed), shape).astype(jnp.bfloat16)


def initial_state(case: StepCase) -> State:
    tokens = jnp.zeros((case.num_tokens, case.hidden), jnp.bfloat16)
    return State(jnp.zeros((), jnp.int32), tokens)


def make_layers(case: StepCase) -> list[Layer]:
    make = jax.jit(functools.partial(make_layer, case))
    return [make(key) for key in jax.random.split(jax.random.key(1), case.num_layers)]


def relative_error(got, want) -> float:
    got, want = np.asarray(got, np.float32), np.asarray(want, np.float32)
    return float(np.linalg.norm(got - want) / max(np.linalg.norm(want), 1e-30))
