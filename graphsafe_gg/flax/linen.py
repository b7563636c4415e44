# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A MoE layer as a Flax Linen module."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen
from flax.core import FrozenDict
from jax.typing import DTypeLike

from graphsafe_gg.flax.moe_params import apply_moe, expert_init, param_specs


class MoeMlp(linen.Module):
    """Router and experts around `graphsafe_gg.moe_mlp`; (..., hidden) in and out.

    Attributes:
      intermediate: width inside an expert.
      num_experts: experts of the layer.
      top_k: experts per token.
      activation: as in `grouped_mlp`.
      use_bias: trained biases of the router and of both products.
      has_score_bias: the variable "score_bias" of zeros in the collection "routing",
        the score_bias of `route`, for a training loop to move.
      dtype: of the experts' products; that of the input by default. The router is
        float32.
      param_dtype: of the parameters.
      kernel_init: of w_gate_up (g, h, 2 * f) and w_down (g, f, h).
      options: other options of `graphsafe_gg.moe_mlp`, by name: score,
        num_expert_groups, top_k_groups, renormalize, scaling_factor, interleaved,
        recompute, mode, precision and name.
    """

    intermediate: int
    num_experts: int
    top_k: int
    activation: str = "swiglu"
    use_bias: bool = False
    has_score_bias: bool = False
    dtype: DTypeLike | None = None
    param_dtype: DTypeLike = jnp.float32
    kernel_init: Callable[..., jax.Array] = expert_init
    options: Mapping[str, Any] | None = None

    def __post_init__(self):
        if self.options is not None:  # a module is hashed by its attributes
            self.options = FrozenDict(self.options)
        super().__post_init__()

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        specs = param_specs(
            x.shape[-1],
            self.intermediate,
            self.num_experts,
            activation=self.activation,
            use_bias=self.use_bias,
            kernel_init=self.kernel_init,
        )
        params = {
            name: self.param(name, spec.init, spec.shape, self.param_dtype)
            for name, spec in specs.items()
        }
        if self.has_score_bias:
            zeros = lambda: jnp.zeros(self.num_experts, jnp.float32)  # noqa: E731
            params["score_bias"] = self.variable("routing", "score_bias", zeros).value
        options = {"top_k": self.top_k, "activation": self.activation}
        options |= self.options or {}
        return apply_moe(x, params, self.dtype, options)
