# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Group sizes with an early copy to the host behind them."""

import dataclasses
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from graphsafe_gg._errors import message
from graphsafe_gg.api import primitives, validation


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class GroupSizes:
    """Group sizes and the ticket of their copy, as `copy_group_sizes` returns them.

    Every operation takes it in place of the array, any number of times; only mode
    "async" uses the ticket. It may cross a jit, a scan or a cond, but then the ticket
    is not used there: the call makes its own copy, and `stats()` counts it.
    """

    sizes: jax.Array
    ticket: jax.Array


def copy_group_sizes(group_sizes: ArrayLike, *, before: Any = None) -> Any:
    """Starts the copy of group sizes to the host, for grouped_gemm in mode "async".

    Args:
      group_sizes: (g,), any integer dtype, on the device.
      before: an array or pytree that the later work uses. The copy is held in front of
        whatever uses the returned value, so that it runs right after group_sizes are
        known. Without it the copy is right but late: XLA places it just before the
        GEMM, and the host then waits for all the work in between.

    Returns:
      GroupSizes, or, with `before`, the pair (before, GroupSizes).

    Raises:
      ValueError, TypeError: group_sizes is not a vector of integers.

    Graph safety: the copy is captured by XLA's command buffers and runs at each replay,
    inside cond and while too. Make it in the function that uses the sizes: through the
    result of a jitted function its ticket is not used.

    Source: csrc/runtime/early_copy.h, design/tickets.md.
    """
    op = "copy_group_sizes"
    sizes = jnp.asarray(group_sizes)
    validation.check_group_sizes(op, sizes)
    ticket = primitives.group_sizes_copy_p.bind(sizes)
    if before is None:
        return GroupSizes(sizes, ticket)
    before, ticket = jax.lax.optimization_barrier((before, ticket))
    return before, GroupSizes(sizes, ticket)


def group_sizes_of(
    expert_idx: ArrayLike, num_experts: int, *, before: Any = None
) -> Any:
    """Counts the rows of each expert, and starts the copy of the counts.

    Args:
      expert_idx: integers of any shape; ids outside [0, num_experts), such as -1, are
        not counted.
      num_experts: number of groups.
      before: as for copy_group_sizes.

    Returns:
      GroupSizes of int32 counts, or, with `before`, the pair (before, GroupSizes).

    Raises:
      TypeError: expert_idx is not integer, or num_experts is no Python int.
      ValueError: num_experts is negative.

    Graph safety: as for copy_group_sizes.
    """
    op = "group_sizes_of"
    expert_idx = jnp.asarray(expert_idx)
    if not jnp.issubdtype(expert_idx.dtype, jnp.integer):
        raise TypeError(
            message(
                op, "expert_idx", "have an integer dtype", expert_idx.dtype, "Cast it."
            )
        )
    try:
        num_experts = operator.index(num_experts)
    except TypeError:
        advice = "It shapes the program, so it cannot be an array or a float."
        text = message(op, "num_experts", "be a Python int", repr(num_experts), advice)
        raise TypeError(text) from None
    if num_experts < 0:
        raise ValueError(
            message(op, "num_experts", "be >= 0", num_experts, "Pass the group count.")
        )
    # In 32 bits a wider id past them would count as another.
    dtype = expert_idx.dtype if expert_idx.dtype.itemsize == 8 else np.dtype(np.int32)
    expert_idx = expert_idx.astype(dtype).reshape(expert_idx.size, 1)
    hits = expert_idx == jnp.arange(num_experts, dtype=dtype)[None, :]
    return copy_group_sizes(jnp.sum(hits, axis=0, dtype=jnp.int32), before=before)
