# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What every call becomes under GG_DISABLE=1: jax.lax.ragged_dot."""

import jax
import jax.numpy as jnp


def grouped_gemm(lhs, rhs, sizes, bias, group_offset, layer, **options) -> jax.Array:
    """`rhs` is (g, k, n), or with a layer (layers, g, k, n). Rows without a group here
    are given to one of zero weights, and selected away."""
    sizes = sizes.astype(jnp.int32)
    if layer is not None:
        layer = jnp.reshape(jnp.asarray(layer), ())
        rhs = jax.lax.dynamic_index_in_dim(rhs, layer, keepdims=False)
        if bias is not None:
            bias = jax.lax.dynamic_index_in_dim(bias, layer, keepdims=False)
    if group_offset is None and bias is None:
        return jax.lax.ragged_dot(lhs, rhs, sizes, **options)
    num_groups, _, n = rhs.shape
    offset = jnp.int32(0) if group_offset is None else jnp.reshape(group_offset, ())
    starts = jnp.cumulative_sum(sizes, include_initial=True)
    first = starts[offset]
    local = jax.lax.dynamic_slice_in_dim(sizes, offset, num_groups)
    weights = jnp.concatenate([jnp.zeros_like(rhs, shape=(1, *rhs.shape[1:])), rhs])
    counts = jnp.concatenate([first[None], local])
    out = jax.lax.ragged_dot(lhs, weights, counts, **options)
    ends = jnp.cumulative_sum(counts)
    row = jnp.arange(lhs.shape[0])
    if bias is not None:
        row_group = jnp.searchsorted(ends, row, side="right")
        rows = jnp.concatenate([jnp.zeros_like(bias, shape=(1, n)), bias])
        out += rows[jnp.minimum(row_group, num_groups)].astype(out.dtype)
    is_local = (row >= first) & (row < ends[-1])
    return jnp.where(is_local[:, None], out, 0)
