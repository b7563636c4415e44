# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of a batch of products in the order of one product.

Rows of a group must be neighbours, and rows without a group must come last. Where each
row goes follows from the sizes by arithmetic: nothing is sorted, nothing loops.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from graphsafe_gg._errors import message


class RowOrder(NamedTuple):
    """A permutation of the rows of a batch, and the sizes of the one product.

    Attributes:
      position: (batch, m), where each row goes.
      source: (batch * m,), which row is there.
      sizes: those of the groups of the one product, and a last entry that is bad if,
        and only if, a size of the batch is: 0, or the smallest negative size, or a
        number that takes the sum above the rows.
    """

    position: jax.Array
    source: jax.Array
    sizes: jax.Array

    def gather(self, rows: jax.Array) -> jax.Array:
        """(batch, m, x) in the order of the one product."""
        batch, m, x = rows.shape
        flat = rows.reshape(batch * m, x)
        return flat.at[self.source].get(unique_indices=True, mode="promise_in_bounds")

    def scatter(self, rows: jax.Array) -> jax.Array:
        """(batch * m, x) back to (batch, m, x)."""
        return rows.at[self.position].get(unique_indices=True, mode="promise_in_bounds")


def row_dtype(num_rows: int) -> np.dtype:
    """An integer type that counts one row more than there are. A number that is not
    known yet, as in an export, has to fit the widest type that is enabled."""
    if not isinstance(num_rows, int):
        return np.dtype(np.int64 if jax.config.jax_enable_x64 else np.int32)
    if num_rows + 1 <= np.iinfo(np.int32).max:
        return np.dtype(np.int32)
    if not jax.config.jax_enable_x64:
        raise NotImplementedError(
            message(
                "grouped_gemm",
                "the rows of a vmapped call",
                "number below 2^31 in all",
                num_rows,
                "Enable jax_enable_x64, or batch less.",
            )
        )
    return np.dtype(np.int64)


def clip_sizes(sizes: jax.Array, low: int, high: int) -> jax.Array:
    """Sizes of any type in a type that holds them once they are cut to [low, high]."""
    if sizes.dtype.itemsize < 4:
        sizes = sizes.astype(np.int32)
    limits = jnp.iinfo(sizes.dtype)
    if isinstance(high, int):
        high = min(limits.max, high)
    return jnp.clip(sizes, max(limits.min, low), jnp.asarray(high).astype(sizes.dtype))


def order_rows(
    sizes: jax.Array,
    first_group: jax.Array | None,
    num_groups: int,
    m: int,
    *,
    by_group: bool,
) -> RowOrder:
    """The order for sizes (batch, all groups), of which each batch entry computes
    `num_groups` from its `first_group` (batch,) on: of those that do not exist, none.

    With `by_group` equal groups of the batch are one group, of one matrix; without, a
    batch entry's groups are its own.
    """
    batch, num_sizes = sizes.shape
    dtype = row_dtype(batch * m)
    bounds, worst = _bounds(sizes, m, dtype)
    if first_group is not None:
        limits = jnp.iinfo(first_group.dtype)
        low, high = max(limits.min, -num_groups), min(limits.max, num_sizes)
        first_group = jnp.clip(first_group, low, high).astype(np.int32)
        groups = first_group[:, None] + jnp.arange(num_groups + 1, dtype=np.int32)[None]
        # A group that does not exist is empty.
        bounds = jnp.take_along_axis(bounds, jnp.clip(groups, 0, num_sizes), axis=1)
    starts, ends = bounds[:, :-1], bounds[:, 1:]
    counts = ends - starts
    row = jnp.arange(m, dtype=dtype)[None]
    begin, end = bounds[:, :1], bounds[:, -1:]
    is_local = (row >= begin) & (row < end)
    local_rows = end - begin
    rows_before = jnp.cumulative_sum(local_rows, axis=0, dtype=dtype) - local_rows
    num_local = jnp.sum(local_rows, dtype=dtype)
    batch_first = jnp.arange(batch, dtype=dtype)[:, None] * m
    tail = num_local + batch_first - rows_before + row
    tail -= jnp.where(row >= end, local_rows, 0)
    if by_group and num_groups:
        totals = jnp.sum(counts, axis=0, dtype=dtype)
        group_first = jnp.cumulative_sum(totals, dtype=dtype) - totals
        batch_before = jnp.cumulative_sum(counts, axis=0, dtype=dtype) - counts
        shift = group_first[None] + batch_before - starts
        group = jnp.sum(row[:, :, None] >= ends[:, None], axis=-1, dtype=np.int32)
        group = jnp.minimum(group, num_groups - 1)
        local = row + jnp.take_along_axis(shift, group, axis=1)
    else:
        totals = jnp.zeros((num_groups,), dtype) if by_group else counts.reshape(-1)
        local = rows_before + row - begin
    position = jnp.where(is_local, local, tail)
    source = jnp.zeros((batch * m,), dtype).at[position.reshape(-1)]
    source = source.set(
        jnp.arange(batch * m, dtype=dtype),
        unique_indices=True,
        mode="promise_in_bounds",
    )
    return RowOrder(position, source, jnp.concatenate([totals, worst[None]]))


def _bounds(sizes, m: int, dtype) -> tuple[jax.Array, jax.Array]:
    """Where each group begins and the last one ends, cut to the rows that exist, and
    what is wrong with the worst size."""
    batch = sizes.shape[0]
    is_negative = sizes < 0
    clipped = clip_sizes(sizes, 0, m + 1).astype(dtype)
    # Adding up to a cap is associative, and cannot overflow.
    cap = jnp.asarray(m, dtype)
    ends = jax.lax.associative_scan(
        lambda a, b: jnp.minimum(a + b, cap), jnp.minimum(clipped, cap), axis=1
    )
    bounds = jnp.concatenate([jnp.zeros((batch, 1), dtype), ends], axis=1)
    is_above = clipped > cap - bounds[:, :-1]
    smallest = jnp.min(sizes, initial=0)
    limits = jnp.iinfo(sizes.dtype)
    floor = max(int(limits.min), int(np.iinfo(dtype).min))
    smallest = jnp.maximum(smallest, floor).astype(dtype)
    above = jnp.asarray(batch * m + 1, dtype)
    worst = jnp.where(is_negative.any(), smallest, jnp.where(is_above.any(), above, 0))
    return bounds, worst.astype(dtype)
