# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Sorts token rows by expert for a grouped GEMM, and combines them again.

Forward and backward move rows by gathers and by scatters with unique indices, so
no sum depends on the order in which threads run.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from graphsafe_gg.mlp.checks import (
    check_count,
    check_float,
    check_int,
    check_rank,
    check_shape,
)

# For jax.checkpoint policies: the order of the rows and the group sizes. They are
# small, and a backward pass that has them gathers the rows without another sort.
ROW_ORDER = "graphsafe_gg_row_order"

_MAX_EXPERTS = 2**31 - 1


class Permutation(NamedTuple):
    """What `unpermute` needs to put rows back.

    Attributes:
      row_idx: (t, top_k) int32, the row that holds this choice of this token.
      is_kept: (t, top_k) bool, False where the choice was dropped.
    """

    row_idx: jax.Array
    is_kept: jax.Array


def permute(
    tokens: jax.Array, expert_idx: jax.Array, num_experts: int
) -> tuple[jax.Array, jax.Array, Permutation]:
    """Copies each token once per chosen expert, with the rows sorted by expert.

    Rows of one expert stay in the order of their tokens. A choice outside
    0..num_experts-1, usually -1, is dropped: its row comes after the sum of
    group_sizes and holds zeros, whatever the token holds.

    Args:
      tokens: (t, h) bfloat16, float16 or float32.
      expert_idx: (t, top_k) integers, the experts of each token.
      num_experts: number of groups g, a Python int.

    Returns:
      rows: (t * top_k, h) in the dtype of tokens.
      group_sizes: (g,) int32, the number of rows of each expert.
      permutation: for `unpermute`.

    Raises:
      ValueError: ranks or shapes that disagree; num_experts below 1.
      TypeError: expert_idx is not integer, or tokens is not floating point.
      NotImplementedError: float64 tokens.

    Under jit, vmap and grad: works; the gradient of a token is the sum over its
    kept rows, in float32, rounded once.
    Graph safety: nothing reaches the host; shapes do not depend on expert_idx.
    """
    tokens, expert_idx = jnp.asarray(tokens), jnp.asarray(expert_idx)
    check_rank("permute", "tokens", tokens, "t, h")
    check_float("permute", "tokens", tokens)
    check_rank("permute", "expert_idx", expert_idx, "t, top_k")
    check_int("permute", "expert_idx", expert_idx)
    num_tokens, top_k = tokens.shape[0], expert_idx.shape[1]
    check_shape(
        "permute", "expert_idx", expert_idx, (num_tokens, top_k), "the rows of tokens"
    )
    num_experts = check_count(
        "permute", "num_experts", num_experts, _MAX_EXPERTS, "the range of int32"
    )
    if expert_idx.dtype.itemsize < 4:  # which may not hold num_experts
        expert_idx = expert_idx.astype(jnp.int32)
    is_kept = (expert_idx >= 0) & (expert_idx < num_experts)
    sort_key = jnp.where(is_kept, expert_idx, num_experts).astype(jnp.int32).ravel()
    order = checkpoint_name(_stable_order(sort_key), ROW_ORDER)
    row_idx = _inverse(order).reshape(num_tokens, top_k)
    group_sizes = checkpoint_name(_count(sort_key, num_experts), ROW_ORDER)
    is_kept_row = jnp.arange(order.size) < jnp.sum(group_sizes)
    rows = _copy_rows(tokens, order, top_k)
    rows = jnp.where(is_kept_row[:, None], rows, jnp.zeros((), rows.dtype))
    return rows, group_sizes, Permutation(row_idx, is_kept)


def unpermute(
    rows: jax.Array, permutation: Permutation, weights: jax.Array
) -> jax.Array:
    """Combines the rows of each token: the inverse of `permute`, then a weighted sum.

    Args:
      rows: (t * top_k, h) bfloat16, float16 or float32, in the order of `permute`.
      permutation: what `permute` returned.
      weights: (t, top_k) floating point, the weight of each choice.

    Returns:
      (t, h) in the dtype of rows; products and sum in float32. A dropped choice
      adds an exact zero, whatever its row and its weight hold.

    Raises:
      ValueError: shapes that disagree.
      TypeError: rows or weights are not floating point.
      NotImplementedError: float64 rows or weights.

    Under jit, vmap and grad: works; dropped choices get exact zero gradients.
    """
    rows, weights = jnp.asarray(rows), jnp.asarray(weights)
    check_rank("unpermute", "rows", rows, "t * top_k, h")
    check_float("unpermute", "rows", rows)
    check_float("unpermute", "weights", weights)
    shape, hidden = permutation.row_idx.shape, rows.shape[1]
    check_shape("unpermute", "weights", weights, shape, "the permutation")
    check_shape(
        "unpermute", "rows", rows, (shape[0] * shape[1], hidden), "the permutation"
    )
    # Keeps the rows as they are for the backward pass, not their float32 copies.
    return jax.checkpoint(_combine)(rows, permutation, weights)


def _combine(
    rows: jax.Array, permutation: Permutation, weights: jax.Array
) -> jax.Array:
    # Selecting before the product keeps NaN out of both gradients: 0 * NaN is NaN.
    is_kept = permutation.is_kept
    weights = jnp.where(is_kept, weights.astype(jnp.float32), 0.0)
    chosen = _take_unique(rows, permutation.row_idx.ravel())
    chosen = chosen.reshape(*is_kept.shape, rows.shape[1])
    chosen = jnp.where(is_kept[..., None], chosen.astype(jnp.float32), 0.0)
    return jnp.sum(chosen * weights[..., None], axis=1).astype(rows.dtype)


def _copy_rows(tokens: jax.Array, order: jax.Array, top_k: int) -> jax.Array:
    """Row i is the token of choice order[i]; differentiates to a float32 sum."""
    num_tokens, hidden = tokens.shape
    # Indexing copies, not tokens, keeps the indices unique in the transpose.
    copies = jnp.broadcast_to(
        tokens.astype(jnp.float32)[:, None, :], (num_tokens, top_k, hidden)
    )
    return _take_unique(copies.reshape(num_tokens * top_k, hidden), order).astype(
        tokens.dtype
    )


def _stable_order(sort_key: jax.Array) -> jax.Array:
    # Not jnp.argsort: under shard_map its result is typed as equal on all devices,
    # whatever the keys are, and a gradient then uses the first one's (jax 0.10, 0.12).
    positions = jnp.arange(sort_key.size, dtype=jnp.int32)
    return jax.lax.sort((sort_key, positions), num_keys=1, is_stable=True)[1]


def _take_unique(rows: jax.Array, row_idx: jax.Array) -> jax.Array:
    return rows.at[row_idx].get(unique_indices=True, mode="promise_in_bounds")


def _inverse(order: jax.Array) -> jax.Array:
    return (
        jnp.zeros_like(order)
        .at[order]
        .set(
            jnp.arange(order.size, dtype=order.dtype),
            unique_indices=True,
            mode="promise_in_bounds",
        )
    )


def _count(sort_key: jax.Array, num_experts: int) -> jax.Array:
    experts = jnp.arange(num_experts, dtype=sort_key.dtype)
    return jnp.sum(sort_key[:, None] == experts[None, :], axis=0, dtype=jnp.int32)
