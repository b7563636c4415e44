# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What both adapters share: the parameters of a MoE layer, and its call."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.nn import initializers
from jax.typing import DTypeLike

from graphsafe_gg.mlp import moe_mlp
from graphsafe_gg.mlp.activation import is_gated

# Each expert by its own fan-in: the first axis counts experts.
expert_init = initializers.variance_scaling(
    1.0, "fan_in", "truncated_normal", in_axis=-2, out_axis=-1, batch_axis=(0,)
)
_router_init = initializers.lecun_normal()
_ROUTING = ("router", "router_bias", "score_bias")


class ParamSpec(NamedTuple):
    shape: tuple[int, ...]
    init: Callable[..., jax.Array]


def param_specs(
    hidden: int,
    intermediate: int,
    num_experts: int,
    *,
    activation: str,
    use_bias: bool,
    kernel_init: Callable[..., jax.Array],
) -> dict[str, ParamSpec]:
    """The trained parameters by name; `moe_mlp` has what the shapes mean."""
    width = 2 * intermediate if is_gated(activation) else intermediate
    specs = {
        "router": ParamSpec((hidden, num_experts), _router_init),
        "w_gate_up": ParamSpec((num_experts, hidden, width), kernel_init),
        "w_down": ParamSpec((num_experts, intermediate, hidden), kernel_init),
    }
    if use_bias:
        specs |= {
            "router_bias": ParamSpec((num_experts,), initializers.zeros),
            "b_gate_up": ParamSpec((num_experts, width), initializers.zeros),
            "b_down": ParamSpec((num_experts, hidden), initializers.zeros),
        }
    return specs


def apply_moe(
    x: jax.Array,
    params: Mapping[str, jax.Array],
    dtype: DTypeLike | None,
    options: Mapping[str, Any],
) -> jax.Array:
    """(..., hidden) -> the same shape; the router in float32, the experts in dtype."""
    x = jnp.asarray(x, dtype)
    tokens = x.reshape(-1, x.shape[-1])
    routing = {name: params.get(name) for name in _ROUTING}
    logits = jnp.dot(
        tokens.astype(jnp.float32), jnp.asarray(routing["router"], jnp.float32)
    )
    if routing["router_bias"] is not None:
        logits = logits + jnp.asarray(routing["router_bias"], jnp.float32)[None, :]
    experts = {
        name: jnp.asarray(value, x.dtype)
        for name, value in params.items()
        if name not in _ROUTING
    }
    out = moe_mlp(
        tokens, logits, score_bias=routing["score_bias"], **experts, **options
    )
    return out.reshape(x.shape)
