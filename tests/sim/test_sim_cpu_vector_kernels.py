# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU's inner loops, for each instruction set that this processor has."""

import ml_dtypes
import numpy as np
import pytest

from graphsafe_gg import _testing
from graphsafe_gg.testing import assert_close, reference_grouped_gemm

instruction_sets = pytest.mark.parametrize("isa", _testing.cpu_instruction_sets())
DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}
dtypes = pytest.mark.parametrize("dtype", DTYPES)
layouts = pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])


def operands(rows, depth, cols, dtype, transpose_rhs):
    rng = np.random.default_rng(rows)
    shape = (cols, depth) if transpose_rhs else (depth, cols)
    return [
        rng.standard_normal(shape, np.float32).astype(DTYPES[dtype])
        for shape in ((rows, depth), shape)
    ]


def multiply(isa, lhs, rhs, transpose_rhs, bias=None):
    (rows, depth), cols = lhs.shape, rhs.shape[0 if transpose_rhs else 1]
    out = np.full((rows, cols), np.nan, np.float32)
    (dtype,) = (name for name, dtype in DTYPES.items() if dtype == lhs.dtype)
    _testing.cpu_multiply_streaming(
        isa,
        dtype,
        lhs.ctypes.data,
        rhs.ctypes.data,
        transpose_rhs,
        0 if bias is None else bias.ctypes.data,
        out.ctypes.data,
        rows,
        cols,
        depth,
    )
    return out


def test_cpu_vector_kernels_always_have_a_baseline():
    assert _testing.cpu_instruction_sets()[-1] == "baseline"


@instruction_sets
@dtypes
@layouts
@pytest.mark.parametrize(
    "dims", [(1, 1, 1), (7, 16, 32), (13, 50, 75), (97, 1100, 37), (3, 2, 300)]
)
def test_cpu_vector_kernels_multiply(isa, dtype, transpose_rhs, dims):
    """Whole tiles and edges of rows, columns and depth; several panels of depth."""
    rows, depth, cols = dims
    lhs, rhs = operands(rows, depth, cols, dtype, transpose_rhs)
    out = multiply(isa, lhs, rhs, transpose_rhs)
    assert_close(
        out,
        reference_grouped_gemm(lhs, rhs[None], [rows], transpose_rhs=transpose_rhs),
    )


@instruction_sets
@layouts
def test_cpu_vector_kernels_sum_nothing_to_the_bias(isa, transpose_rhs):
    lhs, rhs = operands(5, 0, 40, "float32", transpose_rhs)
    bias = np.arange(40, dtype=np.float32)
    assert (multiply(isa, lhs, rhs, transpose_rhs, bias) == bias).all()


@instruction_sets
@layouts
def test_cpu_vector_kernels_bits_of_a_row_do_not_depend_on_other_rows(
    isa, transpose_rhs
):
    lhs, rhs = operands(23, 120, 70, "float32", transpose_rhs)
    together = multiply(isa, lhs, rhs, transpose_rhs)
    for row in range(len(lhs)):
        alone = multiply(isa, lhs[row : row + 1], rhs, transpose_rhs)
        assert alone.tobytes() == together[row].tobytes()


@instruction_sets
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_cpu_vector_kernels_round_as_numpy_does(isa, dtype):
    """Every 16-bit value, the midpoints to its neighbour, and both sides of those."""
    words = np.arange(2**16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        exact = words.view(DTYPES[dtype]).astype(np.float32)
        middle = exact / 2 + np.roll(exact, -1) / 2
        values = np.concatenate([exact, middle])
        values = np.concatenate([np.nextafter(values, x) for x in (-np.inf, 0, np.inf)])
        values = np.concatenate([values, exact, middle])
        want = values.astype(DTYPES[dtype])
    bits = np.zeros(values.size, np.uint16)
    back = values.copy()
    _testing.cpu_narrow_and_widen(
        isa, dtype, back.ctypes.data, bits.ctypes.data, values.size
    )
    got = bits.view(DTYPES[dtype])
    is_nan = np.isnan(want)
    assert (np.isnan(got) == is_nan).all()
    assert (got.view(np.uint16) == want.view(np.uint16))[~is_nan].all()
    assert (back == want.astype(np.float32))[~is_nan].all()
    assert np.isnan(back[is_nan]).all()
