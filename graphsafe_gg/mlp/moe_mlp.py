# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A whole MoE layer: route, permute, the experts' MLPs, combine."""

import jax
import jax.numpy as jnp

from graphsafe_gg.api.group_sizes import group_sizes_of
from graphsafe_gg.api.validation import check_mode
from graphsafe_gg.mlp.checks import (
    check_count,
    check_float,
    check_int,
    check_rank,
    check_shape,
)
from graphsafe_gg.mlp.grouped_mlp import check_weights, grouped_mlp_for
from graphsafe_gg.mlp.permute import permute, unpermute
from graphsafe_gg.mlp.routing import route


def moe_mlp(
    tokens: jax.Array,
    router_logits: jax.Array,
    w_gate_up: jax.Array,
    w_down: jax.Array,
    *,
    top_k: int,
    activation: str = "silu",
    mode: str = "auto",
    precision: jax.lax.PrecisionLike = None,
    name: str | None = None,
) -> jax.Array:
    """Sends each token through its `top_k` experts and adds up their results.

    out[i] = sum over the experts e chosen for token i of weight[i, e] *
    mlp_e(tokens[i]); choice and weights are those of `route`, mlp_e that of
    `grouped_mlp`. Dropless: every choice is computed.

    Args:
      tokens: (t, h) bfloat16, float16 or float32.
      router_logits: (t, g) bfloat16, float16 or float32.
      w_gate_up: (g, h, 2 * f) in the dtype of tokens; the first f columns are the
        gate, the last f columns are up.
      w_down: (g, f, h) in the dtype of tokens.
      top_k: experts per token, a Python int from 1 to g.
      activation: applied to the gate: "silu", "gelu" (exact), "gelu_tanh" or "relu".
      mode: of both products, as in `grouped_gemm`.
      precision: of both products, as in `grouped_gemm`.
      name: call site in messages and statistics.

    Returns:
      (t, h) in the dtype of tokens; routing weights and the sum over experts are
      float32.

    Raises:
      ValueError: ranks, widths, an odd gated width, top_k, activation or mode.
      TypeError: dtypes that differ or are not floating point.
      NotImplementedError: float64, or a mode that cannot run.

    Under jit, grad and scan: works, in tokens, router_logits and both weights.
    vmap: raises.
    Graph safety: that of `grouped_gemm` in the same mode; routing and permutation
    stay on the device.
    Cost: two products of t * top_k rows, one sort of t * top_k numbers.
    """
    op = "moe_mlp"
    tokens, router_logits = jnp.asarray(tokens), jnp.asarray(router_logits)
    w_gate_up, w_down = jnp.asarray(w_gate_up), jnp.asarray(w_down)
    _check_tokens(op, tokens, w_gate_up, w_down)
    check_rank(op, "router_logits", router_logits, "t, g")
    check_float(op, "router_logits", router_logits)
    num_experts = w_gate_up.shape[0]
    check_shape(
        op,
        "router_logits",
        router_logits,
        (tokens.shape[0], num_experts),
        "tokens and w_gate_up",
    )
    top_k = check_count(op, "top_k", top_k, num_experts, "the number of experts")
    weights, expert_idx = route(router_logits, top_k)
    return _experts(
        op,
        (tokens, expert_idx, weights, w_gate_up, w_down),
        activation=activation,
        mode=mode,
        precision=precision,
        name=name,
    )


def routed_mlp(
    tokens: jax.Array,
    expert_idx: jax.Array,
    weights: jax.Array,
    w_gate_up: jax.Array,
    w_down: jax.Array,
    *,
    activation: str = "silu",
    mode: str = "auto",
    precision: jax.lax.PrecisionLike = None,
    name: str | None = None,
) -> jax.Array:
    """`moe_mlp` after the router: the caller brings the choice and the weights.

    For routers other than softmax and top-k, and for routing that was recorded.

    Args:
      tokens: (t, h) bfloat16, float16 or float32.
      expert_idx: (t, top_k) integers; a choice outside 0..g-1, usually -1, is
        dropped and adds an exact zero. An expert may stand in a row twice.
      weights: (t, top_k) bfloat16, float16 or float32.
      w_gate_up: (g, h, 2 * f) in the dtype of tokens; the first f columns are the
        gate, the last f columns are up.
      w_down: (g, f, h) in the dtype of tokens.
      activation: as in `moe_mlp`.
      mode: as in `moe_mlp`.
      precision: as in `moe_mlp`.
      name: as in `moe_mlp`.

    Returns:
      (t, h) in the dtype of tokens.

    Raises: as `moe_mlp`; TypeError if expert_idx is not integer.

    Under jit, grad and scan, graph safety, cost: as `moe_mlp`, without its
    top-k.
    """
    op = "routed_mlp"
    tokens, expert_idx = jnp.asarray(tokens), jnp.asarray(expert_idx)
    weights = jnp.asarray(weights)
    w_gate_up, w_down = jnp.asarray(w_gate_up), jnp.asarray(w_down)
    _check_tokens(op, tokens, w_gate_up, w_down)
    check_rank(op, "expert_idx", expert_idx, "t, top_k")
    check_int(op, "expert_idx", expert_idx)
    choices = (tokens.shape[0], expert_idx.shape[1])
    check_shape(op, "expert_idx", expert_idx, choices, "tokens")
    check_float(op, "weights", weights)
    check_shape(op, "weights", weights, choices, "expert_idx")
    return _experts(
        op,
        (tokens, expert_idx, weights, w_gate_up, w_down),
        activation=activation,
        mode=mode,
        precision=precision,
        name=name,
    )


def _check_tokens(
    op: str, tokens: jax.Array, w_gate_up: jax.Array, w_down: jax.Array
) -> None:
    check_rank(op, "tokens", tokens, "t, h")
    check_float(op, "tokens", tokens)
    check_weights(op, "tokens", tokens, w_gate_up, w_down)


def _experts(op: str, operands: tuple[jax.Array, ...], **options) -> jax.Array:
    tokens, expert_idx, weights, w_gate_up, w_down = operands
    check_mode(op, options["mode"])
    num_experts, copied = w_gate_up.shape[0], None
    if options["mode"] == "async":
        # The copy starts before any row moves; permuting then hides its latency.
        tokens, copied = group_sizes_of(expert_idx, num_experts, before=tokens)
    rows, group_sizes, permutation = permute(tokens, expert_idx, num_experts)
    if copied is not None:
        group_sizes = copied
    rows = grouped_mlp_for(op, rows, w_gate_up, w_down, group_sizes, **options)
    return unpermute(rows, permutation, weights)
