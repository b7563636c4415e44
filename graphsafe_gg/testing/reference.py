# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The operation and its gradients as plain NumPy loops over the groups.

Shares no code with the package. A group sees only its own rows and weights, so NaN
and Inf stay where they are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Truth(NamedTuple):
    """A product, and what is needed to bound the rounding error of another one.

    Attributes:
      value: the product.
      magnitude: the same product of absolute values, elementwise at least |value|.
      num_terms: how many products were added up for each element; broadcasts
        against value.
    """

    value: np.ndarray
    magnitude: np.ndarray
    num_terms: np.ndarray


def reference_grouped_gemm(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    *,
    transpose_rhs: bool = False,
    dtype: type = np.float64,
) -> Truth:
    """out[r] = lhs[r] @ rhs[group of r], zeros past the sum of the sizes.

    Args:
      lhs: (m, k), any floating-point type.
      rhs: (g, k, n) or, with transpose_rhs, (g, n, k).
      group_sizes: (g,) integers, none negative, with a sum of at most m.
      transpose_rhs: rhs is stored as (g, n, k).
      dtype: numpy.float64 or numpy.float32, in which everything is computed.

    Returns:
      Truth of shape (m, n).

    Raises:
      ValueError: sizes that are negative or pass m. The reference clips nothing.
    """
    lhs, rhs = np.asarray(lhs).astype(dtype), np.asarray(rhs)
    (m, k), n = lhs.shape, rhs.shape[1 if transpose_rhs else 2]
    value, magnitude = np.zeros((m, n), dtype), np.zeros((m, n), dtype)
    for group, rows in _groups(group_sizes, m):
        if rows.start == rows.stop:
            continue
        weights = rhs[group].T if transpose_rhs else rhs[group]
        value[rows], magnitude[rows] = _products(lhs[rows], weights.astype(dtype))
    return Truth(value, magnitude, np.asarray(k))


def reference_dlhs(
    dout: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    *,
    transpose_rhs: bool = False,
    dtype: type = np.float64,
) -> Truth:
    """The gradient for lhs: dout[r] @ rhs[group of r]^T, zeros past the sum.

    Args:
      dout: (m, n), the cotangent as the operation uses it: round a wider one to
        the type of the operands first.
      rhs, group_sizes, transpose_rhs, dtype: as in `reference_grouped_gemm`.

    Returns:
      Truth of shape (m, k).
    """
    return reference_grouped_gemm(
        dout, rhs, group_sizes, transpose_rhs=not transpose_rhs, dtype=dtype
    )


def reference_drhs(
    lhs: ArrayLike,
    dout: ArrayLike,
    group_sizes: ArrayLike,
    *,
    transpose_rhs: bool = False,
    dtype: type = np.float64,
) -> Truth:
    """The gradient for rhs: lhs[rows of i]^T @ dout[rows of i]; zeros if empty.

    Args:
      lhs: (m, k).
      dout: (m, n), the cotangent as the operation uses it.
      group_sizes, dtype: as in `reference_grouped_gemm`.
      transpose_rhs: the result is laid out as (g, n, k).

    Returns:
      Truth of shape (g, k, n) or (g, n, k).
    """
    lhs, dout = np.asarray(lhs).astype(dtype), np.asarray(dout).astype(dtype)
    first, second = (dout, lhs) if transpose_rhs else (lhs, dout)
    sizes = np.asarray(group_sizes)
    shape = (len(sizes), first.shape[1], second.shape[1])
    value, magnitude = np.zeros(shape, dtype), np.zeros(shape, dtype)
    for group, rows in _groups(sizes, len(lhs)):
        if rows.start == rows.stop:
            continue
        value[group], magnitude[group] = _products(first[rows].T, second[rows])
    return Truth(value, magnitude, sizes.astype(np.int64)[:, None, None])


def _groups(group_sizes: ArrayLike, m: int):
    start = 0
    for group, size in enumerate(np.asarray(group_sizes).tolist()):
        if size < 0 or start + size > m:
            raise ValueError(
                f"reference: group_sizes must be >= 0 with a sum of at most m = {m}; "
                f"got {size} at index {group} after {start} rows. Correct the sizes."
            )
        yield group, slice(start, start + size)
        start += size


def _products(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(invalid="ignore", over="ignore"):
        return a @ b, np.abs(a) @ np.abs(b)
