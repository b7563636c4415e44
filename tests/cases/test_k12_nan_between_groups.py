# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K12: NaN and Inf of one group or row in another's result."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.products import check_products, run_products

from graphsafe_gg.testing import assert_bit_equal

modes = pytest.mark.parametrize("mode", MODES)


@modes
@pytest.mark.parametrize("dtype", DTYPES)
def test_p032_bad_first_expert(device, mode, dtype):
    """P-032: NaN rows, then Inf weights of group 0; group 1 keeps its bits."""
    operands = random_operands([128, 128], 256, 256, 128, dtype)
    clean = check_products(operands, mode=mode)
    lhs, rhs = operands.lhs.copy(), operands.rhs.copy()
    lhs[:128] = np.nan
    rhs[0] = np.inf
    for bad in (operands._replace(lhs=lhs), operands._replace(rhs=rhs)):
        products = run_products(*bad, mode=mode)
        assert_bit_equal(products.out[128:], clean.out[128:])
        assert_bit_equal(products.dlhs[128:], clean.dlhs[128:])
        assert_bit_equal(products.drhs[1], clean.drhs[1])
        assert not np.isfinite(np.asarray(products.out[:128], np.float32)).any()


@modes
@pytest.mark.parametrize("rows", [99, 100, 101, 127])
def test_p033_nan_behind_the_last_row_of_a_group(device, mode, rows):
    """P-033: groups are packed; slots with padding inside are not supported.

    Rows between groups do not exist, so what stands behind a group's last row is the
    next group: with NaN in all of it, the weight gradient stays finite and right.
    """
    operands = random_operands([rows, 128 - rows, 3], 140, 64, 64, jnp.bfloat16)
    clean = check_products(operands, mode=mode)
    lhs, dout = operands.lhs.copy(), operands.dout.copy()
    lhs[rows:] = dout[rows:] = np.nan
    products = run_products(*operands._replace(lhs=lhs, dout=dout), mode=mode)
    assert_bit_equal(products.drhs[0], clean.drhs[0])
    assert_bit_equal(products.out[:rows], clean.out[:rows])
