# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the primitives lower to under GG_DISABLE=1: jax.lax.ragged_dot_general.

Derivatives and vmap stay those of the primitives, so that all of them work.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import mlir

from graphsafe_gg.api import lowering
from graphsafe_gg.api.operands import unpack

_WEIGHT_GRADIENT = jax.lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(((0,), (0,)), ((), ())),
    lhs_ragged_dimensions=[0],
    rhs_group_dimensions=[],
)


def _grouped_gemm(lhs, rhs, sizes, *rest, transpose_rhs, out_dtype, layer, **params):
    optional = unpack(params["optional"], rest)
    bias = optional.bias
    if rhs.ndim == 4:
        layer = layer if optional.layer is None else optional.layer.reshape(())
        rhs = jax.lax.dynamic_index_in_dim(rhs, layer, keepdims=False)
        if bias is not None:
            bias = jax.lax.dynamic_index_in_dim(bias, layer, keepdims=False)
    rhs = jnp.swapaxes(rhs, 1, 2) if transpose_rhs else rhs
    counts, row_group = _local_groups(sizes, optional, params, lhs, rhs.shape[0])
    # Rows without a group here are those of a first and a last group of zero weights.
    rhs = jnp.pad(rhs, ((1, 0), (0, 0), (0, 0)))
    out = jax.lax.ragged_dot(
        lhs,
        rhs,
        counts[:-1],
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=np.float32,
    )
    if bias is not None:
        out += jnp.pad(bias, ((1, 1), (0, 0)))[row_group].astype(np.float32)
    is_local = (row_group > 0) & (row_group < counts.size - 1)
    return jnp.where(is_local[:, None], out, 0).astype(out_dtype)


def _drhs(lhs, dout, sizes, *rest, out_dtype, num_groups, **params):
    optional = unpack(params["optional"], rest)
    counts, _ = _local_groups(sizes, optional, params, lhs, num_groups)
    out = jax.lax.ragged_dot_general(
        lhs,
        dout,
        counts[:-1],
        _WEIGHT_GRADIENT,
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=np.float32,
    )
    return out[1:].astype(out_dtype)


def _local_groups(sizes, optional, params, lhs, num_groups):
    """Rows before the groups here, of each of them, and behind them; and which of these
    a row is in."""
    m = lhs.shape[0]
    offset = max(params["group_offset"], 0)
    if optional.group_offset is not None:
        offset = optional.group_offset.reshape(()).astype(np.int32)
    ends = jnp.minimum(jnp.cumulative_sum(sizes.astype(np.int32), dtype=np.int32), m)
    zero, last = np.zeros((1,), np.int32), np.full((1,), m, np.int32)
    bounds = jnp.concatenate([zero, ends])
    local = jax.lax.dynamic_slice_in_dim(bounds, offset, num_groups + 1)
    counts = jnp.concatenate([local, last]) - jnp.concatenate([zero, local])
    row = jnp.arange(m, dtype=np.int32)
    return counts, jnp.sum(row[:, None] >= local[None], axis=1, dtype=np.int32)


def _group_sizes_copy(sizes):
    return jnp.zeros((lowering.ticket_words(sizes),), np.uint32)


grouped_gemm, drhs, group_sizes_copy = (
    mlir.lower_fun(fn, multiple_results=False)
    for fn in (_grouped_gemm, _drhs, _group_sizes_copy)
)
