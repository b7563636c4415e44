# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The bound of `graphsafe_gg.testing.compare` lets right results pass, no others."""

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from support.operands import DTYPES, random_operands

from graphsafe_gg.testing import (
    Truth,
    assert_bit_equal,
    assert_close,
    error_bound,
    reference_grouped_gemm,
)

dtypes = pytest.mark.parametrize("dtype", DTYPES)


def truth_of(dtype, k=64):
    return reference_grouped_gemm(*random_operands([3, 0, 4], 9, k, 8, dtype)[:3])


@dtypes
@pytest.mark.parametrize("k", [1, 64, 4096])
def test_testing_compare_accepts_float32_sums(dtype, k):
    """Sums in float32, forwards, backwards and by halves, rounded once."""
    lhs, rhs, sizes, _ = random_operands([3, 0, 4], 9, k, 8, dtype)
    truth = reference_grouped_gemm(lhs, rhs, sizes)
    terms = lhs[:3, :, None].astype(np.float32) * rhs[0].astype(np.float32)
    orders = (
        np.cumsum(terms, axis=1)[:, -1],
        np.cumsum(terms[:, ::-1], axis=1)[:, -1],
        terms.sum(axis=1),
    )
    for total in orders:
        part = Truth(truth.value[:3], truth.magnitude[:3], truth.num_terms)
        assert_close(total.astype(dtype), part)


@dtypes
def test_testing_compare_refuses_one_missing_term(dtype):
    """Leaving out one product of 64 is outside the bound, for every element."""
    lhs, rhs, _, _ = random_operands([7], 7, 64, 8, dtype)
    lhs[:, -1] = 1
    rhs[0, -1] = 1
    truth = reference_grouped_gemm(lhs, rhs, [7])
    short = truth.value - 1
    assert (np.abs(short - truth.value) > error_bound(truth, dtype)).all()


@dtypes
def test_testing_compare_bound_is_tight(dtype):
    """At most a few units of the result's type for well-behaved sums."""
    truth = truth_of(dtype)
    relative = error_bound(truth, dtype)[:7] / truth.magnitude[:7]
    assert relative.max() < 60 * 2.0**-23 + float(ml_dtypes.finfo(dtype).eps)


def test_testing_compare_names_coordinate_and_values():
    truth = truth_of(np.float32)
    actual = truth.value.astype(np.float32)
    actual[4, 6] += 1
    with pytest.raises(AssertionError) as info:
        assert_close(actual, truth, what="out")
    text = str(info.value)
    assert text.startswith(f"out[4, 6] must be {truth.value[4, 6]} within ")
    assert f"; got {actual[4, 6]}. 1 of 72 elements are out." in text


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1e-30, 1.4e-45])
def test_testing_compare_zeros_are_exact(wrong):
    """Where nothing is added up, nothing but zero is right."""
    truth = truth_of(np.float32)
    actual = truth.value.astype(np.float32)
    actual[8, 1] = wrong
    with pytest.raises(AssertionError, match=r"result\[8, 1\] must be 0\.0"):
        assert_close(actual, truth)


def test_testing_compare_nan_and_inf_must_match():
    truth = truth_of(np.float32)
    truth.value[0, 0], truth.value[0, 1] = np.nan, np.inf
    truth.magnitude[0, :2] = np.nan, np.inf
    right = truth.value.astype(np.float32)
    assert_close(right, truth)
    for at, wrong in (
        ((0, 0), 1.0),
        ((0, 1), -np.inf),
        ((0, 1), 1.0),
        ((1, 1), np.nan),
    ):
        actual = right.copy()
        actual[at] = wrong
        with pytest.raises(AssertionError, match="1 of 72 elements"):
            assert_close(actual, truth)


def test_testing_compare_overflow_of_the_result_type():
    """Past 65504 a float16 result is Inf of the right sign."""
    truth = Truth(np.array([1e6, -1e6, 10.0]), np.array([1e6, 1e6, 10.0]), np.array(1))
    assert_close(np.array([np.inf, -np.inf, 10], np.float16), truth)
    for wrong in (
        [-np.inf, -np.inf, 10],
        [np.inf, -np.inf, np.inf],
        [65504, -np.inf, 10],
    ):
        with pytest.raises(AssertionError, match="1 of 3 elements"):
            assert_close(np.array(wrong, np.float16), truth)


def test_testing_compare_shape():
    with pytest.raises(AssertionError, match=r"must have shape \(9, 8\); got \(8, 9\)"):
        assert_close(np.zeros((8, 9), np.float32), truth_of(np.float32))


@dtypes
def test_testing_bit_equal_sees_every_bit(dtype):
    """Signs of zero and bits of NaN count; types and shapes too."""
    array = np.array([1.0, 0.0, np.nan], dtype)
    assert_bit_equal(array, jnp.asarray(array))
    with pytest.raises(AssertionError, match=r"result\[1\] must be 0.* got -0"):
        assert_bit_equal(np.array([1.0, -0.0, np.nan], dtype), array)
    with pytest.raises(AssertionError, match="must be"):
        assert_bit_equal(array[:2], array)
    with pytest.raises(AssertionError, match="must be"):
        assert_bit_equal(array.astype(np.float64), array)
