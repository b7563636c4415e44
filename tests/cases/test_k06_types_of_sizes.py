# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K06: int64 and the other types of group sizes."""

import jax
import numpy as np
import pytest
from support.bad_sizes import BadSizes, assert_reported
from support.operands import MODES, random_operands
from support.products import (
    assert_products_bit_equal,
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg

modes = pytest.mark.parametrize("mode", MODES)


@modes
def test_p014_types_of_sizes(device, mode):
    """P-014: every integer type gives equal bits; float and bool are refused."""
    operands = random_operands([20, 0, 31, 7], 64, 64, 64)
    with jax.enable_x64(True):
        expected = check_products(operands, mode=mode)
        for dtype in (np.int64, np.uint64, np.uint32, np.int16, np.uint8, np.int8):
            sizes = operands.group_sizes.astype(dtype)
            products = run_products(*operands._replace(group_sizes=sizes), mode=mode)
            assert_products_bit_equal(products, expected, f"{dtype.__name__}: ")
        for dtype in (np.float32, np.float64, np.bool_):
            with pytest.raises(
                TypeError, match="group_sizes must have an integer dtype"
            ):
                gg.grouped_gemm(
                    *operands[:2], operands.group_sizes.astype(dtype), mode=mode
                )


@modes
def test_p015_minus_one_cast_to_uint32(device, mode):
    """P-015: 4294967295 is a sum above m, and no length."""
    sizes = np.array([4, -1], np.int64).astype(np.uint32)
    operands = random_operands([4, 12], 16, 24, 40)._replace(group_sizes=sizes)
    bad = BadSizes(
        sizes,
        "sum(group_sizes[:2]) must be at most m = 16; got 4294967299",
        [4, 12],
    )
    result = assert_reported(
        device,
        mode,
        bad,
        "p015",
        lambda: run_products(*operands, mode=mode, name="p015"),
    )
    if result is not None:
        cut = operands._replace(group_sizes=np.array(bad.cut, np.int32))
        assert_products_close(result, truth_of(cut))
