# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The activations of an MLP: gated, of two columns each, and plain, of one.

The limits of "clamped_swiglu" are those of gpt-oss's published model code.
"""

import functools

import jax
import jax.numpy as jnp

from graphsafe_gg._errors import message

_exact_gelu = functools.partial(jax.nn.gelu, approximate=False)
_tanh_gelu = functools.partial(jax.nn.gelu, approximate=True)
_CLAMP_ALPHA, _CLAMP_LIMIT = 1.702, 7.0


def _clamped_swiglu(gate: jax.Array, up: jax.Array) -> jax.Array:
    gate = jnp.minimum(gate, _CLAMP_LIMIT)
    up = jnp.clip(up, -_CLAMP_LIMIT, _CLAMP_LIMIT)
    return gate * jax.nn.sigmoid(_CLAMP_ALPHA * gate) * (up + 1)


_GATED = {
    "swiglu": lambda gate, up: jax.nn.silu(gate) * up,
    "geglu": lambda gate, up: _exact_gelu(gate) * up,
    "geglu_tanh": lambda gate, up: _tanh_gelu(gate) * up,
    "reglu": lambda gate, up: jax.nn.relu(gate) * up,
    "clamped_swiglu": _clamped_swiglu,
}
_PLAIN = {
    "silu": jax.nn.silu,
    "gelu": _exact_gelu,
    "gelu_tanh": _tanh_gelu,
    "relu": jax.nn.relu,
    "relu2": lambda up: jnp.square(jax.nn.relu(up)),
}
ACTIVATIONS = (*_GATED, *_PLAIN)


def check_activation(op: str, activation: object) -> None:
    """Raises unless `activation` is one of the known names."""
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        rule = "be one of " + ", ".join(map(repr, ACTIVATIONS))
        text = message(op, "activation", rule, repr(activation), "Pass one of these.")
        raise ValueError(text)


def is_gated(activation: str) -> bool:
    return activation in _GATED


def activate(
    pre_activation: tuple[jax.Array, ...], activation: str, interleaved: bool
) -> jax.Array:
    """(m, f), computed in float32 and rounded once.

    Args:
      pre_activation: gate and up, (m, f) each; or both in one (m, 2 * f), gate
        columns first or, `interleaved`, in turn; or (m, f) of a plain activation.
    """
    dtype = pre_activation[0].dtype
    parts = [part.astype(jnp.float32) for part in pre_activation]
    if activation in _PLAIN:
        return _PLAIN[activation](*parts).astype(dtype)
    if len(parts) == 1:
        parts = _halves(parts[0], interleaved)
    return _GATED[activation](*parts).astype(dtype)


def _halves(gate_up: jax.Array, interleaved: bool) -> list[jax.Array]:
    if not interleaved:
        return jnp.split(gate_up, 2, axis=-1)
    m, num_columns = gate_up.shape
    pairs = gate_up.reshape(m, num_columns // 2, 2)
    return [pairs[..., 0], pairs[..., 1]]
