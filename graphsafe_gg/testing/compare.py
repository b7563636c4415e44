# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Comparison with a bound that follows from the operation, not from the data at hand.

A float32 sum of t products errs by at most t units of float32 of the sum of the
products' magnitudes, and, as its roundings are independent, by no more than about
sqrt(t) of them. Operands of 16 bits multiply exactly in float32. Storing the result
adds half a unit of the result's type.
"""

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from graphsafe_gg.testing.reference import Truth

# One rounding of a float32 sum. Tensor cores cut where an FMA rounds to nearest: a
# whole unit in the last place, not half.
_SUM_UNIT = float(np.finfo(np.float32).eps)
# Standard deviations of the sum of the roundings: 6 leave one in 1e9 elements out.
_NUM_DEVIATIONS = 6.0


def error_bound(truth: Truth, result_dtype, num_roundings: int = 1) -> np.ndarray:
    """Largest error, elementwise, of a right product in float32 accumulation.

    Args:
      truth: from one of the reference functions.
      result_dtype: in which the result is stored.
      num_roundings: to result_dtype; more than one where a result was rounded,
        used and rounded again.

    Returns:
      float64, the shape of truth.value.
    """
    info = ml_dtypes.finfo(result_dtype)
    terms = np.asarray(truth.num_terms, np.float64)
    num_units = np.minimum(terms, _NUM_DEVIATIONS * np.sqrt(terms))
    summing = num_units * _SUM_UNIT * np.asarray(truth.magnitude, np.float64)
    value = np.abs(np.asarray(truth.value, np.float64))
    with np.errstate(invalid="ignore"):
        storing = 0.5 * num_roundings * float(info.eps) * (value + summing)
    return summing + storing + float(info.smallest_subnormal)


def assert_close(
    actual: ArrayLike, truth: Truth, num_roundings: int = 1, what: str = "result"
) -> None:
    """Fails unless every element is within `error_bound`, and zero where truth is.

    NaN is expected where truth has NaN and nowhere else, Inf where truth has it or
    where the result's type ends.

    Args:
      actual: a JAX or NumPy array; its dtype sets the bound.
      truth: from one of the reference functions.
      num_roundings: as in `error_bound`.
      what: names the array in the message.

    Raises:
      AssertionError: shape, or the worst element: coordinate, both values, bound,
        and how many elements are out.
    """
    actual = np.asarray(actual)
    if actual.shape != truth.value.shape:
        raise AssertionError(
            f"{what} must have shape {truth.value.shape}; got {actual.shape}."
        )
    got = actual.astype(np.float64)
    want = np.asarray(truth.value, np.float64)
    bound = error_bound(truth, actual.dtype, num_roundings)
    largest = float(ml_dtypes.finfo(actual.dtype).max)
    with np.errstate(invalid="ignore"):
        excess = np.abs(got - want) / np.maximum(bound, np.finfo(np.float64).tiny)
        excess[np.isnan(got) & np.isnan(want)] = 0
        overflows = np.isinf(got) & (np.abs(want) + bound >= largest)
        excess[overflows & (np.sign(got) == np.sign(want))] = 0
        # No product, no rounding: padding and empty groups are zeros to the bit.
        has_no_terms = np.broadcast_to(truth.magnitude, want.shape) == 0
        excess[has_no_terms & (got != 0)] = np.inf
    excess = np.nan_to_num(excess, nan=np.inf)
    _raise_worst(what, excess, actual, want, bound)


def assert_bit_equal(actual: ArrayLike, expected: ArrayLike, what: str = "result"):
    """Fails unless both arrays have the same type, shape and bits.

    Raises:
      AssertionError: type, shape, or the first element that differs: coordinate,
        both values, and how many differ.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    kind = (actual.dtype, actual.shape)
    if kind != (expected.dtype, expected.shape):
        raise AssertionError(
            f"{what} must be {expected.dtype}{expected.shape}; "
            f"got {actual.dtype}{actual.shape}."
        )
    unsigned = np.dtype(f"u{actual.dtype.itemsize}")
    differs = np.ascontiguousarray(actual).view(unsigned) != np.ascontiguousarray(
        expected
    ).view(unsigned)
    _raise_worst(what, np.where(differs, np.inf, 0.0), actual, expected)


def _raise_worst(what, excess, actual, want, bound=None) -> None:
    """Names the worst of the elements whose excess is above one."""
    num_bad = int(np.count_nonzero(excess > 1))
    if num_bad == 0:
        return
    at = np.unravel_index(int(np.argmax(excess)), excess.shape)
    margin = "bit for bit" if bound is None else f"within {bound[at]:.3g}"
    raise AssertionError(
        f"{what}{[int(i) for i in at]} must be {want[at]} {margin}; "
        f"got {actual[at]}. {num_bad} of {excess.size} elements are out."
    )
