# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The reference of `graphsafe_gg.testing`, against sums element by element."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, random_operands

from graphsafe_gg.testing import (
    reference_dlhs,
    reference_drhs,
    reference_grouped_gemm,
)

SIZES = [2, 0, 3]
GROUP_OF_ROW = [0, 0, 2, 2, 2, None, None]


def operands_of(transpose_rhs=False, dtype=jnp.float32):
    return random_operands(SIZES, 7, 4, 5, dtype, transpose_rhs=transpose_rhs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_testing_reference_by_element(transpose_rhs, dtype):
    lhs, rhs, sizes, dout = operands_of(transpose_rhs, dtype)
    weights = (rhs.swapaxes(1, 2) if transpose_rhs else rhs).astype(float)
    a, c = lhs.astype(float), dout.astype(float)
    out, dlhs = np.zeros((7, 5)), np.zeros((7, 4))
    drhs = np.zeros(weights.shape)
    for row, group in enumerate(GROUP_OF_ROW):
        for i in range(4):
            for j in range(5):
                if group is not None:
                    out[row, j] += a[row, i] * weights[group, i, j]
                    dlhs[row, i] += c[row, j] * weights[group, i, j]
                    drhs[group, i, j] += a[row, i] * c[row, j]
    options = {"transpose_rhs": transpose_rhs}
    truths = (
        (reference_grouped_gemm(lhs, rhs, sizes, **options), out),
        (reference_dlhs(dout, rhs, sizes, **options), dlhs),
        (
            reference_drhs(lhs, dout, sizes, **options),
            drhs.swapaxes(1, 2) if transpose_rhs else drhs,
        ),
    )
    for truth, by_element in truths:
        np.testing.assert_allclose(truth.value, by_element, rtol=1e-14, atol=1e-14)
        assert truth.value.dtype == np.float64
        assert (truth.magnitude >= np.abs(truth.value) - 1e-12).all()


def test_testing_reference_number_of_terms():
    lhs, rhs, sizes, dout = operands_of()
    assert reference_grouped_gemm(lhs, rhs, sizes).num_terms == 4
    assert reference_dlhs(dout, rhs, sizes).num_terms == 5
    terms = reference_drhs(lhs, dout, sizes).num_terms
    assert terms[:, 0, 0].tolist() == SIZES


def test_testing_reference_in_float32():
    lhs, rhs, sizes, dout = operands_of()
    assert reference_grouped_gemm(lhs, rhs, sizes, dtype=np.float32).value.dtype == "f4"
    assert reference_drhs(lhs, dout, sizes, dtype=np.float32).value.dtype == "f4"


def test_testing_reference_keeps_nan_where_it_is():
    lhs, rhs, sizes, dout = operands_of()
    rhs[0], lhs[5:], dout[5:] = np.nan, np.inf, np.nan
    out = reference_grouped_gemm(lhs, rhs, sizes).value
    assert np.isnan(out[:2]).all()
    assert np.isfinite(out[2:]).all()
    assert np.isfinite(reference_drhs(lhs, dout, sizes).value).all()


@pytest.mark.parametrize("sizes", [[2, -1, 3], [2, 0, 6]])
def test_testing_reference_clips_nothing(sizes):
    lhs, rhs, _, _ = operands_of()
    with pytest.raises(ValueError, match="must be >= 0 with a sum of at most m = 7"):
        reference_grouped_gemm(lhs, rhs, sizes)
