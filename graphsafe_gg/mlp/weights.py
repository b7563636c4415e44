# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The weights and biases of the experts' MLPs, checked at trace time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from graphsafe_gg._errors import message
from graphsafe_gg.mlp.activation import is_gated
from graphsafe_gg.mlp.checks import check_rank, check_same_dtype, check_shape

GateUp = ArrayLike | tuple[ArrayLike, ArrayLike]


class ExpertWeights(NamedTuple):
    """What the two products multiply with.

    Attributes:
      gate_up: one array (g, h, 2 * f), or (g, h, f) of a plain activation, or the two
        (g, h, f) of gate and up apart.
      down: (g, f, h).
      gate_up_bias: (g, n) for each array of gate_up, or None for each.
      down_bias: (g, h), or None.
    """

    gate_up: tuple[jax.Array, ...]
    down: jax.Array
    gate_up_bias: tuple[jax.Array | None, ...]
    down_bias: jax.Array | None

    @property
    def num_groups(self) -> int:
        return self.down.shape[0]


def expert_weights(
    op: str,
    x_name: str,
    x: jax.Array,
    w_gate_up: GateUp,
    w_down: ArrayLike,
    options: dict[str, Any],
) -> ExpertWeights:
    """The weights as arrays; raises unless they belong to one MLP for rows like x."""
    activation, b_down = options["activation"], options["b_down"]
    down = jnp.asarray(w_down)
    check_rank(op, "w_down", down, "g, f, h")
    gate_up = _gate_up(op, x_name, x, w_gate_up, activation)
    num_groups, _, num_columns = gate_up[0][1].shape
    is_fused = is_gated(activation) and len(gate_up) == 1
    width = num_columns // 2 if is_fused else num_columns
    expected = (num_groups, width, x.shape[1])
    to_match = f"{x_name} and w_gate_up for activation '{activation}'"
    check_shape(op, "w_down", down, expected, to_match)
    check_same_dtype(op, "w_down", down, x_name, x)
    if b_down is not None:
        b_down = jnp.asarray(b_down)
        check_shape(op, "b_down", b_down, (num_groups, x.shape[1]), "w_down")
        check_same_dtype(op, "b_down", b_down, x_name, x)
    return ExpertWeights(
        tuple(array for _, array in gate_up),
        down,
        _gate_up_bias(op, x_name, x, gate_up, options["b_gate_up"]),
        b_down,
    )


def _named(op: str, argument: str, value) -> list[tuple[str, jax.Array]]:
    """The arrays of an argument that is one array or a pair, with their names."""
    if not isinstance(value, tuple):
        return [(argument, jnp.asarray(value))]
    if len(value) != 2:
        rule, advice = "be an array or a pair of arrays", "Pass (gate, up)."
        got = f"{len(value)} arrays"
        raise ValueError(message(op, argument, rule, got, advice))
    return [(f"{argument}[{i}]", jnp.asarray(part)) for i, part in enumerate(value)]


def _gate_up(
    op: str, x_name: str, x: jax.Array, w_gate_up: GateUp, activation: str
) -> list[tuple[str, jax.Array]]:
    arrays = _named(op, "w_gate_up", w_gate_up)
    is_fused = is_gated(activation) and len(arrays) == 1
    if len(arrays) == 2 and not is_gated(activation):
        rule = f"be one array for activation '{activation}', which has no gate"
        advice = "Pass the up weights alone, or a gated activation such as 'swiglu'."
        raise ValueError(message(op, "w_gate_up", rule, "a pair", advice))
    for name, array in arrays:
        check_rank(op, name, array, "g, h, 2 * f" if is_fused else "g, h, f")
    num_groups, _, num_columns = arrays[0][1].shape
    if is_fused and num_columns % 2:
        rule = "have an even last axis, the columns of gate and up"
        advice = "Join gate and up, or pass them apart as a pair."
        raise ValueError(message(op, "w_gate_up", rule, arrays[0][1].shape, advice))
    for name, array in arrays:
        expected = (num_groups, x.shape[1], num_columns)
        check_shape(op, name, array, expected, x_name)
        check_same_dtype(op, name, array, x_name, x)
    return arrays


def _gate_up_bias(
    op: str,
    x_name: str,
    x: jax.Array,
    gate_up: list[tuple[str, jax.Array]],
    b_gate_up: GateUp | None,
) -> tuple[jax.Array | None, ...]:
    if b_gate_up is None:
        return (None,) * len(gate_up)
    biases = _named(op, "b_gate_up", b_gate_up)
    if len(biases) != len(gate_up):
        rule = "come as w_gate_up does, as one array or as a pair"
        got = f"{len(biases)} for {len(gate_up)}"
        raise ValueError(message(op, "b_gate_up", rule, got, "Split or join it."))
    for (name, bias), (w_name, w) in zip(biases, gate_up, strict=True):
        check_shape(op, name, bias, (w.shape[0], w.shape[2]), w_name)
        check_same_dtype(op, name, bias, x_name, x)
    return tuple(bias for _, bias in biases)
