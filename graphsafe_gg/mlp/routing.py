# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Top-k routing: which experts a token goes to, and with what weight."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from graphsafe_gg._errors import message
from graphsafe_gg.mlp.checks import (
    check_count,
    check_float,
    check_rank,
    check_shape,
)

SCORES = ("softmax", "topk_softmax", "sigmoid")


def route(
    router_logits: ArrayLike,
    top_k: int,
    *,
    score: str = "softmax",
    score_bias: ArrayLike | None = None,
    num_expert_groups: int = 1,
    top_k_groups: int | None = None,
    renormalize: bool = True,
    scaling_factor: float = 1.0,
) -> tuple[jax.Array, jax.Array]:
    """Chooses `top_k` experts for each token and weighs them.

    Scores are made of the logits, the experts with the largest scores are chosen, and
    their scores are the weights. Defaults are those of Mixtral and Qwen3;
    `score="topk_softmax"` is gpt-oss; DeepSeek-V3 is `score="sigmoid"` with
    score_bias, num_expert_groups=8, top_k_groups=4 and scaling_factor=2.5.

    Args:
      router_logits: (t, g) bfloat16, float16 or float32; one logit per token and
        expert.
      top_k: experts per token, a Python int from 1 to g.
      score: "softmax" over all experts, before the choice; "topk_softmax", the
        softmax over the chosen logits alone, after it; "sigmoid" of each logit.
      score_bias: (g,) added to the scores (of "topk_softmax": to the logits) for the
        choice alone. Weights do not have it, and no gradient reaches it.
      num_expert_groups: the experts form as many groups of neighbours, and a token
        chooses inside its best top_k_groups of them. A group counts as much as its
        best expert or, with score_bias, as its two best together.
      top_k_groups: from 1 to num_expert_groups; all of them by default.
      renormalize: divide the weights of a token by their sum. Weights of
        "topk_softmax" sum to one anyway.
      scaling_factor: multiplies the weights at the end, a Python float.

    Returns:
      weights: (t, top_k) float32, of the larger choosing score first.
      expert_idx: (t, top_k) int32, distinct in each row; of equal scores the lower
        expert number comes first.

    Raises:
      ValueError: rank of router_logits, shape of score_bias, an unknown score; top_k
        above the number of experts or of those in top_k_groups groups;
        num_expert_groups that does not divide g.
      TypeError: router_logits is not floating point, or a count is not an int.
      NotImplementedError: float64 logits.

    Under jit, vmap and grad: works; the choice has no gradient. A row with a NaN
    logit gets NaN weights; which experts it chooses is open, but they are distinct and
    in range. No other row sees it.

    Source: the routers of the models' published code. Softmax with renormalize is
    computed over the chosen logits alone, so no weight is lost to underflow.
    """
    op = "route"
    logits = jnp.asarray(router_logits)
    check_rank(op, "router_logits", logits, "t, g")
    check_float(op, "router_logits", logits)
    num_experts = logits.shape[1]
    top_k = check_count(
        op, "top_k", top_k, num_experts, "the number of experts in router_logits"
    )
    if score not in SCORES:
        rule = "be one of " + ", ".join(map(repr, SCORES))
        raise ValueError(message(op, "score", rule, repr(score), "Pass one of these."))
    num_groups, kept_groups = _check_groups(
        op, num_experts, top_k, num_expert_groups, top_k_groups
    )
    logits = logits.astype(jnp.float32)
    is_softmax = score == "topk_softmax" or (score == "softmax" and renormalize)
    scores = _scores(logits, score, renormalize, score_bias is not None)
    choosing = scores
    if score_bias is not None:
        score_bias = jnp.asarray(score_bias)
        check_float(op, "score_bias", score_bias)
        check_shape(op, "score_bias", score_bias, (num_experts,), "router_logits")
        choosing = choosing + score_bias.astype(jnp.float32)[None, :]
    if kept_groups < num_groups:
        num_best = 1 if score_bias is None else 2
        choosing = _mask_groups(choosing, num_groups, kept_groups, num_best)
    expert_idx = jax.lax.top_k(choosing, top_k)[1].astype(jnp.int32)
    weights = jnp.take_along_axis(
        logits if is_softmax else scores, expert_idx, axis=1, mode="promise_in_bounds"
    )
    if is_softmax:
        weights = jax.nn.softmax(weights, axis=-1)
    elif renormalize:
        # Sigmoids of logits below -88 are all zero; the weights are zero then.
        weights = weights / (jnp.sum(weights, axis=-1, keepdims=True) + 1e-20)
    # A negative NaN is chosen last, so the weights alone would not show it.
    has_nan = jnp.any(jnp.isnan(logits), axis=-1, keepdims=True)
    return jnp.where(has_nan, jnp.nan, weights * scaling_factor), expert_idx


def _scores(
    logits: jax.Array, score: str, renormalize: bool, has_bias: bool
) -> jax.Array:
    if score == "sigmoid":
        return jax.nn.sigmoid(logits)
    # The softmax keeps the order of the logits, but not their distances to a bias.
    if score == "softmax" and (has_bias or not renormalize):
        return jax.nn.softmax(logits, axis=-1)
    return logits


def _check_groups(
    op: str,
    num_experts: int,
    top_k: int,
    num_expert_groups: int,
    top_k_groups: int | None,
) -> tuple[int, int]:
    num_groups = check_count(
        op, "num_expert_groups", num_expert_groups, max(num_experts, 1), "the experts"
    )
    if num_experts % num_groups:
        rule = f"divide the number of experts, {num_experts}"
        advice = "Groups are of equal size."
        raise ValueError(message(op, "num_expert_groups", rule, num_groups, advice))
    if top_k_groups is None:
        return num_groups, num_groups
    kept = check_count(
        op, "top_k_groups", top_k_groups, num_groups, "the number of expert groups"
    )
    in_reach = kept * (num_experts // num_groups)
    if top_k > in_reach:
        rule = f"be at most {in_reach}, the experts of {kept} groups"
        advice = "Raise top_k_groups or lower top_k."
        raise ValueError(message(op, "top_k", rule, top_k, advice))
    return num_groups, kept


def _mask_groups(
    scores: jax.Array, num_groups: int, kept_groups: int, num_best: int
) -> jax.Array:
    """(t, g): scores, and -inf outside the best `kept_groups` groups of each row."""
    num_tokens, num_experts = scores.shape
    grouped = scores.reshape(num_tokens, num_groups, num_experts // num_groups)
    num_best = min(num_best, grouped.shape[2])
    group_scores = jnp.sum(jax.lax.top_k(grouped, num_best)[0], axis=-1)
    kept = jax.lax.top_k(group_scores, kept_groups)[1]
    is_kept = jnp.any(kept[:, :, None] == jnp.arange(num_groups)[None, None, :], axis=1)
    return jnp.where(is_kept[:, :, None], grouped, -jnp.inf).reshape(scores.shape)
