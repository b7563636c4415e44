# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The float32 reference: an independent MoE layer, and the error against it.

Shares no code with the layers under test: routing is NumPy, and every expert that was
chosen is applied to all tokens by plain `jax.numpy` products in float32. A layer is
compared given what entered it, so that roundings do not add up over layers or turn
into another choice of experts.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from graphsafe_gg.decode.stack import (
    DTYPES,
    History,
    LayerWeights,
    StackConfig,
    StepInputs,
)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How far a mode is from the reference.

    Attributes:
      max_rel_err: largest over steps, layers and tokens of the largest error of a
        token over the root mean square of its reference; inf if anything is NaN.
      worst: (step, layer, token) of that error.
      weight_bytes_per_step: mean bytes of the weights of the experts in use.
    """

    max_rel_err: float
    worst: tuple[int, int, int]
    weight_bytes_per_step: float


def tolerance(config: StackConfig) -> float:
    """The largest error that rounding explains.

    A result is about five deviations at most, and the roundings to the dtype (both
    products, the activation, the sum) add up to less than three of it, half an eps
    each. Float32 sums of k random terms add about sqrt(k) eps, here taken four times.
    """
    model = config.model
    rounding = 8 * float(jnp.finfo(DTYPES[config.dtype]).eps)
    terms = model.hidden**0.5 + model.intermediate**0.5 + model.top_k**0.5
    return rounding + 4 * terms * float(jnp.finfo(jnp.float32).eps)


def compare(
    config: StackConfig,
    inputs: StepInputs,
    layers: list[LayerWeights],
    history: History,
    num_executed: int,
    on_step: Callable[[], None] = lambda: None,
) -> Comparison:
    """Compares every step that one mode's history holds after `num_executed` steps."""
    # Indexing on the host: on the device each index would compile a program.
    history, inputs = jax.device_get((history, inputs))
    worst, where, num_active = -1.0, (0, 0, 0), []
    for slot in range(min(config.num_held_steps, num_executed)):
        step = _step_in_slot(config, slot, num_executed)
        num_active.append(0)
        for layer_idx, layer in enumerate(layers):
            share = _expert_shares(config, inputs, history, (slot, step, layer_idx))
            active = np.flatnonzero(share.any(axis=0)).astype(np.int32)
            num_active[-1] += len(active)
            normed = history.normed[slot, layer_idx]
            truth = moe_reference(normed, share, active, layer, config.model.activation)
            errors = _token_errors(history.moe_out[slot, layer_idx], truth)
            if errors.max() > worst:
                token = int(errors.argmax())
                worst, where = float(errors[token]), (step, layer_idx, token)
        on_step()
    num_bytes = float(np.mean(num_active)) * config.weight_bytes_of_one_expert
    return Comparison(worst, where, num_bytes)


def moe_reference(
    normed: jax.Array,
    share: np.ndarray,
    active: np.ndarray,
    layer: LayerWeights,
    activation: str,
) -> np.ndarray:
    """(t, h) float32: the sum over active experts of share[:, e] * mlp_e(normed)."""
    padded = np.zeros(share.shape[1], np.int32)
    padded[: len(active)] = active
    operands = normed, share, padded, len(active), layer.w_gate_up, layer.w_down
    return np.asarray(_sum_over_experts(activation, *operands))


@functools.partial(jax.jit, static_argnums=0)
def _sum_over_experts(
    activation: str, normed, share, active, num_active, w_gate_up, w_down
):
    tokens = normed.astype(jnp.float32)
    width = w_down.shape[1]

    def product(lhs, rhs):
        return jnp.dot(lhs, rhs.astype(jnp.float32), precision="highest")

    def add_expert(i, total):
        expert = active[i]
        gate = product(tokens, w_gate_up[expert, :, :width])
        up = product(tokens, w_gate_up[expert, :, width:])
        out = product(_GATES[activation](gate) * up, w_down[expert])
        weight = share[:, expert][:, None]
        return total + jnp.where(weight != 0, weight * out, 0.0)

    return jax.lax.fori_loop(0, num_active, add_expert, jnp.zeros_like(tokens))


_GATES = {
    "swiglu": lambda x: x / (1 + jnp.exp(-x)),
    "geglu_tanh": lambda x: (
        0.5 * x * (1 + jnp.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    ),
}


def _step_in_slot(config: StackConfig, slot: int, num_executed: int) -> int:
    """The step, of the last that ran, whose trace lies in this slot of the history."""
    last = num_executed - 1
    age = (last - slot) % config.num_held_steps
    return (last - age) % config.num_steps


def _expert_shares(
    config: StackConfig,
    inputs: StepInputs,
    history: History,
    position: tuple[int, int, int],
) -> np.ndarray:
    """(t, g) float32: the weight of each expert in each token, zero if not chosen."""
    slot, step, layer_idx = position
    if history.logits is None:
        assert inputs.expert_idx is not None
        choices = np.asarray(inputs.expert_idx[step, layer_idx])
        weights = np.asarray(inputs.weights)
    else:
        logits = np.asarray(history.logits[slot, layer_idx], np.float64)
        choices = np.argsort(-logits, axis=1, kind="stable")[:, : config.model.top_k]
        chosen = np.take_along_axis(logits, choices, axis=1)
        weights = np.exp(chosen - chosen.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
    share = np.zeros((len(choices), config.model.num_experts), np.float32)
    tokens, slots = np.nonzero(choices >= 0)
    np.add.at(share, (tokens, choices[tokens, slots]), weights[tokens, slots])
    return share


def _token_errors(out: jax.Array, truth: np.ndarray) -> np.ndarray:
    """(t,) largest error of each token over the size of its reference."""
    error = np.abs(np.asarray(out, np.float32) - truth).max(axis=1)
    size = np.sqrt(np.mean(truth.astype(np.float64) ** 2, axis=1))
    ratio = np.divide(error, size, out=np.full(len(error), np.inf), where=size > 0)
    return np.nan_to_num(np.where(error == 0, 0.0, ratio), nan=np.inf, posinf=np.inf)
