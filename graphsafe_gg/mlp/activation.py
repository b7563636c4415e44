# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The activations of a gated MLP."""

import functools

import jax
import jax.numpy as jnp

from graphsafe_gg._errors import message

_ACTIVATIONS = {
    "silu": jax.nn.silu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "relu": jax.nn.relu,
}


def check_activation(op: str, activation: object) -> None:
    """Raises unless `activation` is one of the known names."""
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        rule = "be one of " + ", ".join(map(repr, _ACTIVATIONS))
        text = message(op, "activation", rule, repr(activation), "Pass one of these.")
        raise ValueError(text)


def gated_activation(gate_up: jax.Array, activation: str) -> jax.Array:
    """(m, 2 * f), gate columns first -> (m, f), in float32 and rounded once."""
    gate, up = jnp.split(gate_up.astype(jnp.float32), 2, axis=-1)
    return (_ACTIVATIONS[activation](gate) * up).astype(gate_up.dtype)
