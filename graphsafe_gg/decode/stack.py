# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The stack of MoE layers: its weights, its inputs, and one jitted step per mode.

A step is h += moe(rms_norm(h)) for each layer, with the package's public layers.
Every buffer that a step touches keeps its address from step to step, as in a decode
loop that donates its state: a captured graph is then replayed, not captured again.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from graphsafe_gg.decode.expert_choices import expert_choices
from graphsafe_gg.decode.presets import Model
from graphsafe_gg.mlp.moe_mlp import moe_mlp, routed_mlp
from graphsafe_gg.sizes_file import RecordedSizes

DTYPES = {"bf16": jnp.bfloat16, "f16": jnp.float16, "f32": jnp.float32}

# What a run may hold for the comparison with the reference.
_HISTORY_LIMIT_BYTES = 2**30


@dataclasses.dataclass(frozen=True)
class StackConfig:
    """What is run: everything that the shapes of a step follow from."""

    model: Model
    num_layers: int
    num_tokens: int
    num_steps: int
    dtype: str
    seed: int = 0
    recorded: RecordedSizes | None = None

    @property
    def weight_bytes_of_one_expert(self) -> int:
        return (
            self.model.elements_of_one_expert * jnp.dtype(DTYPES[self.dtype]).itemsize
        )

    @property
    def weight_bytes_of_one_layer(self) -> int:
        router_bytes = 4 * self.model.hidden * self.model.num_experts
        return self.model.num_experts * self.weight_bytes_of_one_expert + router_bytes

    @property
    def history_bytes_of_one_step(self) -> int:
        row_bytes = 2 * self.model.hidden * jnp.dtype(DTYPES[self.dtype]).itemsize
        logits_bytes = 0 if self.recorded else 4 * self.model.num_experts
        return self.num_layers * self.num_tokens * (row_bytes + logits_bytes)

    @property
    def num_held_steps(self) -> int:
        """How many of the last steps are held for the comparison; at least one."""
        fitting = _HISTORY_LIMIT_BYTES // max(self.history_bytes_of_one_step, 1)
        return int(max(1, min(self.num_steps, fitting)))


class LayerWeights(NamedTuple):
    router: jax.Array
    w_gate_up: jax.Array
    w_down: jax.Array


class StepInputs(NamedTuple):
    """What differs from step to step; the leading axis of each array is the step.

    Attributes:
      tokens: (steps, t, h), what enters the first layer.
      expert_idx: (steps, layers, t, top_k) recorded routing, or None.
      weights: (t, top_k) float32 weights of recorded routing, or None.
    """

    tokens: jax.Array
    expert_idx: jax.Array | None
    weights: jax.Array | None


class History(NamedTuple):
    """What the MoE layers of the held steps read and wrote.

    Attributes:
      normed: (held, layers, t, h), the tokens that entered each MoE layer.
      logits: (held, layers, t, g) float32, or None with recorded routing.
      moe_out: (held, layers, t, h), what each MoE layer returned.
    """

    normed: jax.Array
    logits: jax.Array | None
    moe_out: jax.Array


class StepState(NamedTuple):
    """Donated from step to step."""

    step: jax.Array
    tokens: jax.Array
    history: History


def build_layer(config: StackConfig, layer_idx: int) -> LayerWeights:
    """Random weights of one layer, scaled so that activations stay near one."""
    key = jax.random.fold_in(jax.random.key(config.seed), layer_idx)
    return _random_layer(config.model, DTYPES[config.dtype], key)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _random_layer(model: Model, dtype, key: jax.Array) -> LayerWeights:
    g, h, f = model.num_experts, model.hidden, model.intermediate
    router_key, gate_up_key, down_key = jax.random.split(key, 3)

    def normal(key, shape, fan_in):
        return jax.random.normal(key, shape, jnp.float32) * fan_in**-0.5

    return LayerWeights(
        router=normal(router_key, (h, g), h),
        w_gate_up=normal(gate_up_key, (g, h, 2 * f), h).astype(dtype),
        w_down=normal(down_key, (g, f, h), f).astype(dtype),
    )


def build_inputs(config: StackConfig) -> StepInputs:
    """New tokens for each step and, with recorded sizes, routing that has them."""
    key = jax.random.fold_in(jax.random.key(config.seed), config.num_layers)
    shape = (config.num_steps, config.num_tokens, config.model.hidden)
    tokens = jax.random.normal(key, shape, jnp.float32).astype(DTYPES[config.dtype])
    if config.recorded is None:
        return StepInputs(tokens, None, None)
    choices, weights = recorded_routing(config)
    return StepInputs(tokens, jnp.asarray(choices), jnp.asarray(weights))


def recorded_routing(config: StackConfig) -> tuple[np.ndarray, np.ndarray]:
    """expert_idx (steps, layers, t, top_k) and weights (t, top_k) of a replay."""
    assert config.recorded is not None
    rng = np.random.default_rng(config.seed)
    top_k, group_sizes = config.recorded.top_k, config.recorded.group_sizes
    choices = np.empty((*group_sizes.shape[:2], config.num_tokens, top_k), np.int32)
    for step, layer in np.ndindex(*group_sizes.shape[:2]):
        choices[step, layer] = expert_choices(
            group_sizes[step, layer], top_k, config.num_tokens, rng
        )
    weights = rng.dirichlet(np.full(top_k, 4.0), config.num_tokens)
    return choices, weights.astype(np.float32)


def initial_state(config: StackConfig) -> StepState:
    """Step zero; the history is NaN, so a step that writes nothing shows."""
    dtype = DTYPES[config.dtype]
    rows = (config.num_layers, config.num_tokens, config.model.hidden)
    held = config.num_held_steps
    logits = None
    if config.recorded is None:
        shape = (held, *rows[:2], config.model.num_experts)
        logits = jnp.full(shape, jnp.nan, jnp.float32)
    history = History(
        jnp.full((held, *rows), jnp.nan, dtype),
        logits,
        jnp.full((held, *rows), jnp.nan, dtype),
    )
    return StepState(jnp.zeros((), jnp.int32), jnp.zeros(rows[1:], dtype), history)


def compile_step(
    config: StackConfig,
    mode: str,
    state: StepState,
    inputs: StepInputs,
    layers: list[LayerWeights],
):
    """The compiled step of one mode: (state, inputs, layers) -> state."""
    # An unused argument would not be donated, and its buffer would move.
    step = functools.partial(_step, config, mode)
    step = jax.jit(step, donate_argnums=0, keep_unused=True)
    return step.lower(state, inputs, layers).compile()


def _step(
    config: StackConfig,
    mode: str,
    state: StepState,
    inputs: StepInputs,
    layers: list[LayerWeights],
) -> StepState:
    step = jax.lax.rem(state.step, jnp.int32(config.num_steps))
    tokens = _at(inputs.tokens, step)
    traces = []
    for layer_idx, layer in enumerate(layers):
        normed = _rms_norm(tokens)
        options: dict[str, Any] = {
            "activation": config.model.activation,
            "mode": mode,
            "name": f"decode.{mode}.layer{layer_idx}",
        }
        if inputs.expert_idx is None or inputs.weights is None:
            logits = jnp.dot(normed.astype(jnp.float32), layer.router)
            out = moe_mlp(
                normed, logits, *layer[1:], top_k=config.model.top_k, **options
            )
        else:
            logits = None
            choices = _at(inputs.expert_idx, step)[layer_idx]
            out = routed_mlp(normed, choices, inputs.weights, *layer[1:], **options)
        tokens = tokens + out
        traces.append(History(normed, logits, out))
    slot = jax.lax.rem(state.step, jnp.int32(config.num_held_steps))
    history = jax.tree.map(
        lambda held, *new: jax.lax.dynamic_update_index_in_dim(
            held, jnp.stack(new), slot, 0
        ),
        state.history,
        *traces,
    )
    return StepState(state.step + 1, tokens, history)


def _at(array: jax.Array, step: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(array, step, 0, keepdims=False)


def _rms_norm(tokens: jax.Array) -> jax.Array:
    wide = tokens.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return (wide * scale).astype(tokens.dtype)
