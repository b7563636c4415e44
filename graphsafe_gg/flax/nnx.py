# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A MoE layer as a Flax NNX module."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike

from graphsafe_gg.flax.moe_params import apply_moe, expert_init, param_specs


class ScoreBias(nnx.Variable):
    """The bias of the choice of experts: state that no gradient reaches."""


class MoeMlp(nnx.Module):
    """Router and experts around `graphsafe_gg.moe_mlp`; (..., hidden) in and out.

    Args:
      hidden: width of a token.
      intermediate: width inside an expert.
      num_experts: experts of the layer.
      top_k: experts per token.
      activation: as in `grouped_mlp`.
      use_bias: trained biases of the router and of both products.
      has_score_bias: a ScoreBias of zeros, the score_bias of `route`, for a training
        loop to move.
      dtype: of the experts' products; that of the input by default. The router is
        float32.
      param_dtype: of the parameters.
      kernel_init: of w_gate_up (g, h, 2 * f) and w_down (g, f, h).
      rngs: of the parameters.
      **options: other options of `graphsafe_gg.moe_mlp`: score, num_expert_groups,
        top_k_groups, renormalize, scaling_factor, interleaved, recompute, mode,
        precision and name.
    """

    def __init__(
        self,
        hidden: int,
        intermediate: int,
        num_experts: int,
        *,
        top_k: int,
        activation: str = "swiglu",
        use_bias: bool = False,
        has_score_bias: bool = False,
        dtype: DTypeLike | None = None,
        param_dtype: DTypeLike = jnp.float32,
        kernel_init: Callable[..., jax.Array] = expert_init,
        rngs: nnx.Rngs,
        **options: Any,
    ):
        self.dtype = dtype
        self.options = {"top_k": top_k, "activation": activation, **options}
        specs = param_specs(
            hidden,
            intermediate,
            num_experts,
            activation=activation,
            use_bias=use_bias,
            kernel_init=kernel_init,
        )
        self.param_names = tuple(specs)
        for name, spec in specs.items():
            value = spec.init(rngs.params(), spec.shape, param_dtype)
            setattr(self, name, nnx.Param(value))
        if has_score_bias:
            self.score_bias = ScoreBias(jnp.zeros(num_experts, jnp.float32))
            self.param_names += ("score_bias",)

    def __call__(self, x: jax.Array) -> jax.Array:
        params = {name: getattr(self, name)[...] for name in self.param_names}
        return apply_moe(x, params, self.dtype, self.options)
