# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The keyword options of `grouped_mlp` that the layers around it take and hand on."""

from typing import Any, TypedDict, Unpack

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from graphsafe_gg._errors import message
from graphsafe_gg.api.call_site import check_name, default_name
from graphsafe_gg.api.validation import check_mode
from graphsafe_gg.mlp.activation import check_activation
from graphsafe_gg.mlp.weights import GateUp


class MlpOptions(TypedDict, total=False):
    """What each means: `grouped_mlp`."""

    b_gate_up: GateUp | None
    b_down: ArrayLike | None
    activation: str
    interleaved: bool
    recompute: bool
    mode: str
    precision: jax.lax.PrecisionLike
    name: str | None


_DEFAULTS: MlpOptions = {
    "b_gate_up": None,
    "b_down": None,
    "activation": "swiglu",
    "interleaved": False,
    "recompute": False,
    "mode": "auto",
    "precision": None,
    "name": None,
}


def mlp_options(
    op: str, w_gate_up: GateUp, **options: Unpack[MlpOptions]
) -> dict[str, Any]:
    """All options, with defaults; raises for an unknown name, activation or mode.

    The call site is named here, where JAX's named scopes are those of the caller.
    """
    for option in options:
        if option not in _DEFAULTS:
            rule = "have options out of " + ", ".join(_DEFAULTS)
            text = message(op, "the call", rule, repr(option), "Check its spelling.")
            raise TypeError(text)
    filled: dict[str, Any] = {**_DEFAULTS, **options}
    check_activation(op, filled["activation"])
    check_mode(op, filled["mode"])
    check_name(op, filled["name"])
    if filled["name"] is None:
        first = w_gate_up
        if isinstance(w_gate_up, tuple) and w_gate_up:
            first = w_gate_up[0]
        filled["name"] = default_name(op, jnp.asarray(first))
    return filled
