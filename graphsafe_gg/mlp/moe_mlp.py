# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A whole MoE layer: route, permute, the experts' MLPs, combine."""

from typing import Any, Unpack

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from graphsafe_gg.api.group_sizes import group_sizes_of
from graphsafe_gg.mlp.checks import (
    check_count,
    check_float,
    check_int,
    check_rank,
    check_shape,
)
from graphsafe_gg.mlp.grouped_mlp import expert_products, keeping
from graphsafe_gg.mlp.options import MlpOptions, mlp_options
from graphsafe_gg.mlp.permute import permute, unpermute
from graphsafe_gg.mlp.recording import record
from graphsafe_gg.mlp.routing import route
from graphsafe_gg.mlp.weights import ExpertWeights, GateUp, expert_weights


def moe_mlp(
    tokens: ArrayLike,
    router_logits: ArrayLike,
    w_gate_up: GateUp,
    w_down: ArrayLike,
    *,
    top_k: int,
    score: str = "softmax",
    score_bias: ArrayLike | None = None,
    num_expert_groups: int = 1,
    top_k_groups: int | None = None,
    renormalize: bool = True,
    scaling_factor: float = 1.0,
    **options: Unpack[MlpOptions],
) -> jax.Array:
    """Sends each token through its `top_k` experts and adds up their results.

    out[i] = sum over the experts e chosen for token i of weight[i, e] *
    mlp_e(tokens[i]); choice and weights are those of `route`, mlp_e that of
    `grouped_mlp`. Dropless: every choice is computed.

    Args:
      tokens: (t, h) bfloat16, float16 or float32.
      router_logits: (t, g) bfloat16, float16 or float32.
      w_gate_up: as in `grouped_mlp`, in the dtype of tokens.
      w_down: as in `grouped_mlp`, in the dtype of tokens.
      top_k: experts per token, a Python int from 1 to g.
      score: as in `route`, like the five options that follow.
      score_bias: as in `route`.
      num_expert_groups: as in `route`.
      top_k_groups: as in `route`.
      renormalize: as in `route`.
      scaling_factor: as in `route`.
      **options: b_gate_up, b_down, activation, interleaved, recompute, mode,
        precision and name of `grouped_mlp`.

    Returns:
      (t, h) in the dtype of tokens. Routing weights and the sum over experts, in the
      order of the choices, are float32. In float16 the experts' results are float32
      until they are weighed, so that none overflows before its weight shrinks it.

    Raises:
      ValueError: ranks, widths, an odd gated width, top_k, activation or mode.
      TypeError: dtypes that differ or are not floating point.
      NotImplementedError: float64, or a mode that cannot run.

    Under jit, grad, jvp, vmap and scan: as `grouped_gemm`, in tokens, router_logits,
    weights and biases. NaN in router_logits: as `route`; it reaches its own tokens.
    Sharding: inside shard_map; under a plain jit only weights may be split, over f.
    Graph safety: that of `grouped_gemm` in the same mode; routing and permutation
    stay on the device.
    Cost: two products of t * top_k rows, one sort of t * top_k numbers; in mode
    "async" one copy of the sizes.
    """
    op = "moe_mlp"
    tokens, router_logits = jnp.asarray(tokens), jnp.asarray(router_logits)
    filled = mlp_options(op, w_gate_up, **options)
    weights = _checked_weights(op, tokens, w_gate_up, w_down, filled)
    num_experts = weights.num_groups
    check_rank(op, "router_logits", router_logits, "t, g")
    check_float(op, "router_logits", router_logits)
    expected = (tokens.shape[0], num_experts)
    check_shape(op, "router_logits", router_logits, expected, "tokens and the weights")
    top_k = check_count(op, "top_k", top_k, num_experts, "the number of experts")
    combine_weights, expert_idx = route(
        router_logits,
        top_k,
        score=score,
        score_bias=score_bias,
        num_expert_groups=num_expert_groups,
        top_k_groups=top_k_groups,
        renormalize=renormalize,
        scaling_factor=scaling_factor,
    )
    return _experts(op, tokens, expert_idx, combine_weights, weights, filled)


def routed_mlp(
    tokens: ArrayLike,
    expert_idx: ArrayLike,
    weights: ArrayLike,
    w_gate_up: GateUp,
    w_down: ArrayLike,
    **options: Unpack[MlpOptions],
) -> jax.Array:
    """`moe_mlp` after the router: the caller brings the choice and the weights.

    For routers that `route` does not have, and for routing that was recorded.

    Args:
      tokens: (t, h) bfloat16, float16 or float32.
      expert_idx: (t, top_k) integers; a choice outside 0..g-1, usually -1, is
        dropped and adds an exact zero. An expert may stand in a row twice.
      weights: (t, top_k) bfloat16, float16 or float32.
      w_gate_up: as in `grouped_mlp`, in the dtype of tokens.
      w_down: as in `grouped_mlp`, in the dtype of tokens.
      **options: as in `moe_mlp`.

    Returns:
      (t, h) in the dtype of tokens.

    Raises: as `moe_mlp`; TypeError if expert_idx is not integer.

    Under jit, grad, jvp, vmap and scan, graph safety, cost: as `moe_mlp`, without its
    top-k.
    """
    op = "routed_mlp"
    tokens, expert_idx = jnp.asarray(tokens), jnp.asarray(expert_idx)
    weights = jnp.asarray(weights)
    filled = mlp_options(op, w_gate_up, **options)
    experts = _checked_weights(op, tokens, w_gate_up, w_down, filled)
    check_rank(op, "expert_idx", expert_idx, "t, top_k")
    check_int(op, "expert_idx", expert_idx)
    choices = (tokens.shape[0], expert_idx.shape[1])
    check_shape(op, "expert_idx", expert_idx, choices, "tokens")
    check_float(op, "weights", weights)
    check_shape(op, "weights", weights, choices, "expert_idx")
    return _experts(op, tokens, expert_idx, weights, experts, filled)


def _checked_weights(
    op: str, tokens: jax.Array, w_gate_up: GateUp, w_down: ArrayLike, options: dict
) -> ExpertWeights:
    check_rank(op, "tokens", tokens, "t, h")
    check_float(op, "tokens", tokens)
    return expert_weights(op, "tokens", tokens, w_gate_up, w_down, options)


def _experts(
    op: str,
    tokens: jax.Array,
    expert_idx: jax.Array,
    combine_weights: jax.Array,
    weights: ExpertWeights,
    options: dict[str, Any],
) -> jax.Array:
    dtype = tokens.dtype

    def experts(tokens, expert_idx, weights):
        num_experts, copied = weights.num_groups, None
        if options["mode"] == "async":
            # The copy starts before any row moves; permuting then hides its latency.
            tokens, copied = group_sizes_of(expert_idx, num_experts, before=tokens)
        rows, group_sizes, permutation = permute(tokens, expert_idx, num_experts)
        sizes = group_sizes if copied is None else copied
        out_dtype = jnp.float32 if dtype == jnp.float16 else None
        rows = expert_products(op, rows, sizes, weights, options, out_dtype)
        return rows, permutation, group_sizes

    layer = keeping(experts, None, options)
    rows, permutation, group_sizes = layer(tokens, expert_idx, weights)
    record(group_sizes)
    return unpermute(rows, permutation, combine_weights).astype(dtype)
