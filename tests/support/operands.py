# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Random operands for one call and its gradients."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

MODES = ("auto", "sync", "device", "async")
DTYPES = (jnp.bfloat16, jnp.float16, jnp.float32)


class Operands(NamedTuple):
    lhs: np.ndarray
    rhs: np.ndarray
    group_sizes: np.ndarray
    dout: np.ndarray


def random_operands(
    group_sizes,
    m: int | None = None,
    k: int = 24,
    n: int = 40,
    dtype=jnp.float32,
    *,
    transpose_rhs: bool = False,
    out_dtype=None,
    seed: int = 0,
) -> Operands:
    """Normal data; m is the sum of the sizes unless given."""
    rng = np.random.default_rng(seed)
    group_sizes = np.asarray(group_sizes)
    if not group_sizes.size:
        group_sizes = group_sizes.astype(np.int32)
    if m is None:
        m = int(group_sizes.sum())
    num_groups = len(group_sizes)
    rhs_shape = (num_groups, n, k) if transpose_rhs else (num_groups, k, n)

    def normal(shape, dtype):
        return rng.standard_normal(shape, np.float32).astype(dtype)

    return Operands(
        normal((m, k), dtype),
        normal(rhs_shape, dtype),
        group_sizes.astype(np.int32) if group_sizes.dtype == np.int64 else group_sizes,
        normal((m, n), out_dtype or dtype),
    )


def poison_tail(operands: Operands, value: float = np.nan) -> Operands:
    """The same call with `value` in every row past the sum of the sizes."""
    lhs, dout = operands.lhs.copy(), operands.dout.copy()
    end = int(operands.group_sizes.sum())
    lhs[end:] = value
    dout[end:] = value
    return operands._replace(lhs=lhs, dout=dout)


def rows_of(group_sizes, group: int) -> slice:
    ends = np.cumsum(np.asarray(group_sizes, np.int64))
    return slice(int(ends[group] - group_sizes[group]), int(ends[group]))
