# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The same bits in every run and mode, where modes choose different tiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, random_operands
from support.platforms import is_cuda
from support.products import assert_products_bit_equal, check_products, run_products

from graphsafe_gg.testing import assert_bit_equal

pytestmark = pytest.mark.gpu

SHAPES = {
    "few_large": ([700, 0, 324], 1024, 512, 384),
    "many_small": ([3, 0, 17, 1, 64, 0, 2, 9] * 8, 800, 512, 384),
    "mixed": ([1, 600, 0, 65, 63, 5, 129, 17], 1000, 1000, 200),
    "odd": ([100, 3, 90], 200, 333, 77),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_device_bits_agree_between_modes(device, dtype, shape, transpose_rhs):
    sizes, m, k, n = SHAPES[shape]
    operands = random_operands(sizes, m, k, n, dtype, transpose_rhs=transpose_rhs)
    options = {"transpose_rhs": transpose_rhs}
    expected = check_products(operands, mode="device", **options)
    for mode in ("sync", "async"):
        products = run_products(*operands, mode=mode, **options)
        assert_products_bit_equal(products, expected, f"{mode}: ")


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_bits_of_a_hundred_runs(device, dtype):
    sizes, m, k, n = SHAPES["mixed"]
    operands = jax.device_put(random_operands(sizes, m, k, n, dtype))
    first = jax.device_get(run_products(*operands, mode="device"))
    for run in range(100 if is_cuda(device) else 3):
        again = run_products(*operands, mode="device")
        assert_products_bit_equal(again, first, f"run {run}: ")


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_bits_of_a_row_do_not_depend_on_the_others(device, dtype):
    """A row alone, in a small group, in a large one and at another place."""
    k, n = 512, 384
    rng = np.random.default_rng(0)
    row = rng.standard_normal((1, k), np.float32).astype(dtype)
    weights = rng.standard_normal((k, n), np.float32).astype(dtype)
    results = []
    for before, around, at in ((0, 1, 0), (5, 40, 7), (130, 300, 222), (64, 65, 64)):
        sizes = [before, around, 3]
        operands = random_operands(sizes, 512, k, n, dtype)
        lhs, rhs = operands.lhs.copy(), operands.rhs.copy()
        lhs[before + at], rhs[1] = row, weights
        for mode in ("device", "sync"):
            moved = operands._replace(lhs=lhs, rhs=rhs)
            results.append(np.asarray(run_products(*moved, mode=mode).out)[before + at])
    if is_cuda(device):
        for result in results[1:]:
            np.testing.assert_array_equal(
                result.view(f"u{result.dtype.itemsize}"),
                results[0].view(f"u{result.dtype.itemsize}"),
            )
    else:
        for result in results:
            assert jnp.allclose(result, results[0], rtol=0.05, atol=0.5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_device_bits_of_a_row_do_not_depend_on_how_many_there_are(
    device, dtype, transpose_rhs
):
    """Few rows and many go through other kernels; on sm_90 mma.sync and wgmma."""
    options = {"transpose_rhs": transpose_rhs}
    many = random_operands([150, 0, 200], 400, 520, 264, dtype, **options)
    few = many._replace(
        lhs=many.lhs[:5], group_sizes=np.array([5, 0, 0]), dout=many.dout[:5]
    )
    of_many, of_few = (
        run_products(*rows, mode="device", **options) for rows in (many, few)
    )
    for name in ("out", "dlhs"):
        got, wanted = getattr(of_few, name), getattr(of_many, name)[:5]
        if is_cuda(device):
            assert_bit_equal(got, wanted, what=name)
        else:
            assert jnp.allclose(got, wanted, rtol=0.05, atol=0.5)
