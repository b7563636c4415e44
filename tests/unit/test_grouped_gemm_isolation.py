# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What one row or group holds reaches no other, and the tail reaches nothing."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, poison_tail, random_operands, rows_of
from support.products import assert_products_bit_equal, check_products, run_products

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

SIZES = [5, 0, 17, 9]
BAD_VALUES = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [SIZES, [0, 0, 0, 0], [0, 0, 33, 0], [31, 0, 0, 0]])
def test_grouped_gemm_isolation_tail(device, sizes, mode, dtype, transpose_rhs):
    """Bits do not depend on what lhs and the cotangent hold past the sum."""
    options = {"mode": mode, "transpose_rhs": transpose_rhs}
    operands = random_operands(sizes, 64, 32, 48, dtype, transpose_rhs=transpose_rhs)
    clean = check_products(operands, **options)
    for value in BAD_VALUES:
        poisoned = run_products(*poison_tail(operands, value), **options)
        assert_products_bit_equal(poisoned, clean, f"{value} in the tail: ")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("victim", ["lhs", "rhs", "dout"])
def test_grouped_gemm_isolation_neighbour_group(device, victim, mode, dtype):
    """NaN and Inf in one group's operand leave the other groups' bits alone."""
    operands = random_operands(SIZES, 64, 32, 48, dtype)
    clean = check_products(operands, mode=mode)
    for group in (0, 2, 3):
        for value in BAD_VALUES:
            array = getattr(operands, victim).copy()
            array[group if victim == "rhs" else rows_of(SIZES, group)] = value
            bad = run_products(*operands._replace(**{victim: array}), mode=mode)
            for other in {0, 1, 2, 3} - {group}:
                rows = rows_of(SIZES, other)
                what = f"{value} in {victim} of group {group}, group {other}: "
                assert_bit_equal(np.asarray(bad.out)[rows], clean.out[rows], what)
                assert_bit_equal(np.asarray(bad.dlhs)[rows], clean.dlhs[rows], what)
                assert_bit_equal(np.asarray(bad.drhs)[other], clean.drhs[other], what)


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_isolation_weights_of_an_empty_group(device, mode):
    operands = random_operands(SIZES, 64, 32, 48)
    rhs = operands.rhs.copy()
    rhs[1] = np.nan
    products = run_products(*operands._replace(rhs=rhs), mode=mode)
    assert_products_bit_equal(products, check_products(operands, mode=mode))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_isolation_nan_stays_in_its_row(device, mode, dtype):
    """A bad row spoils itself and the weight gradient of its group, nothing else."""
    operands = random_operands(SIZES, 64, 32, 48, dtype)
    clean = check_products(operands, mode=mode)
    lhs = operands.lhs.copy()
    lhs[7, 3] = np.nan  # in group 2
    bad = run_products(*operands._replace(lhs=lhs), mode=mode)
    out = np.asarray(bad.out)
    assert np.isnan(out[7].astype(np.float32)).all()
    assert_bit_equal(np.delete(out, 7, 0), np.delete(clean.out, 7, 0))
    assert_bit_equal(bad.dlhs, clean.dlhs)
    drhs = np.asarray(bad.drhs)
    assert np.isnan(drhs[2, 3].astype(np.float32)).all()
    assert_bit_equal(np.delete(drhs[2], 3, 0), np.delete(clean.drhs[2], 3, 0))


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_isolation_nan_inside_arrives(device, mode):
    """Nothing is masked away: Inf and NaN of a group's own operands show."""
    operands = random_operands(SIZES, 64, 32, 48)
    lhs = operands.lhs.copy()
    lhs[0, 0] = np.inf
    lhs[1, 1] = np.nan
    check_products(operands._replace(lhs=lhs), mode=mode)


@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_grouped_gemm_isolation_every_nan_stays_nan(device, bits, out_dtype):
    """Rounding to 16 bits makes no number of a NaN, whatever its bits are."""
    lhs, rhs, sizes, _ = random_operands([2, 3], 5, 1, 8)
    lhs[1] = np.array([bits], np.uint32).view(np.float32)
    out = gg.grouped_gemm(lhs, rhs, sizes, preferred_element_type=out_dtype)
    is_nan = np.isnan(np.asarray(out, np.float32))
    assert is_nan[1].all()
    assert not np.delete(is_nan, 1, 0).any()


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_isolation_bits_of_a_row_survive_other_sizes(device, mode):
    """A group's rows keep their bits when the groups around it change size.

    On a CPU, BLAS may pick another kernel for another number of rows, so the group
    itself keeps its size here.
    """
    operands = random_operands([8, 12, 20], 48, 32, 48, jnp.bfloat16)
    moved = random_operands([14, 12, 3], 48, 32, 48, jnp.bfloat16)
    lhs, dout = moved.lhs.copy(), moved.dout.copy()
    lhs[14:26], dout[14:26] = operands.lhs[8:20], operands.dout[8:20]
    rhs = moved.rhs.copy()
    rhs[1] = operands.rhs[1]
    before = run_products(*operands, mode=mode)
    after = run_products(*moved._replace(lhs=lhs, rhs=rhs, dout=dout), mode=mode)
    assert_bit_equal(after.out[14:26], before.out[8:20])
    assert_bit_equal(after.dlhs[14:26], before.dlhs[8:20])
    assert_bit_equal(after.drhs[1], before.drhs[1])
