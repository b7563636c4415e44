# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels at any address: nothing outside the operands is used or written."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.guarded import Guarded, launch
from support.operands import DTYPES, Operands, random_operands
from support.platforms import is_cuda
from support.products import Products, run_products, truth_of

from graphsafe_gg.testing import assert_bit_equal, assert_close

pytestmark = pytest.mark.gpu

SHAPES = {
    "aligned_axes": ([33, 0, 70, 9], 128, 64, 96),
    "odd_axes": ([33, 0, 70, 9], 115, 67, 45),
    "one_row_each": ([1] * 24, 24, 128, 72),
    "tiny": ([2, 1], 4, 1, 3),
    "many_rows": ([600, 0, 31], 700, 136, 264),
}
# In elements, of the two operands, the sizes and the result.
OFFSETS = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1), (3, 5, 1, 7)]


def run_guarded(device, is_drhs, first, second, sizes, out, offsets, **options):
    """One product, each operand at its own offset in elements. Checks the guards.

    Returns:
      The result, and the error of bad sizes if there was one.
    """
    held = [
        Guarded(device, array.shape, array.dtype, offset, array)
        for array, offset in zip((first, second, sizes), offsets, strict=False)
    ]
    result = Guarded(device, *out, offsets[3])
    arrays = (*(array.array for array in held), result.array)
    error = launch(device, is_drhs, arrays, **options)
    return result.read(), error


def three_products(operands: Operands, transpose_rhs: bool):
    """Arguments of each: is_drhs, first, second, shape of the result, options."""
    lhs, rhs, _, dout = operands
    a, b = (dout, lhs) if transpose_rhs else (lhs, dout)
    return Products(
        (False, lhs, rhs, dout.shape, {"transpose_rhs": transpose_rhs}),
        (False, dout, rhs, lhs.shape, {"transpose_rhs": not transpose_rhs}),
        (True, a, b, rhs.shape, {}),
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_device_memory_at_odd_addresses(device, dtype, shape, transpose_rhs):
    """Right between guards of NaN, and the bits of the call at aligned addresses."""
    sizes, m, k, n = SHAPES[shape]
    operands = random_operands(sizes, m, k, n, dtype, transpose_rhs=transpose_rhs)
    truth = truth_of(operands, transpose_rhs)
    expected = run_products(*operands, mode="device", transpose_rhs=transpose_rhs)
    for offsets in OFFSETS:
        for name, product, wanted, bits in zip(
            Products._fields,
            three_products(operands, transpose_rhs),
            truth,
            expected,
            strict=True,
        ):
            is_drhs, first, second, out_shape, options = product
            out = (out_shape, dtype)
            result, error = run_guarded(
                device, is_drhs, first, second, operands[2], out, offsets, **options
            )
            what = f"{name} at offsets {offsets}"
            assert error is None
            assert_close(result, wanted, what=what)
            if is_cuda(device):
                assert_bit_equal(result, bits, what=what)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_device_memory_of_bad_sizes(device, dtype, transpose_rhs):
    """Sizes of any bits: the result is written whole, and nothing around it."""
    rng = np.random.default_rng(0)
    draws = [[40, 40, 0, 0, 0, 0], [-1, 70, 3, 0, 0, 0], [2**31 - 1] * 6]
    for _ in range(40):
        words = rng.integers(-(2**31), 2**31, 6)
        words[rng.random(6) < 0.6] %= 40
        draws.append(words)
    num_bad = 0
    for index, sizes in enumerate(draws):
        operands = random_operands(
            np.array(sizes, np.int32), 61, 24, 40, dtype, transpose_rhs=transpose_rhs
        )
        for product in three_products(operands, transpose_rhs):
            is_drhs, first, second, shape, options = product
            offsets = (1, 3, 1, 1 + index % 7)
            result, error = run_guarded(
                device,
                is_drhs,
                first,
                second,
                operands.group_sizes,
                (shape, dtype),
                offsets,
                **options,
            )
            assert np.isfinite(result.astype(np.float32)).all(), sizes
            num_bad += error is not None
    assert num_bad > 2 * len(draws)
