# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm` at the ends of its domain: empty axes, odd sizes, many groups."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.products import check_products

from graphsafe_gg.testing import assert_bit_equal, empty_group_masks, size_patterns

# Around the edges of tiles and of 16-byte rows.
ODD = [(1, 1), (1, 129), (3, 17), (17, 3), (31, 33), (65, 97), (97, 65), (129, 1)]
ODD += [(100, 129), (127, 255), (128, 257), (257, 8)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES[1:])
@pytest.mark.parametrize("num_groups", range(1, 7))
def test_grouped_gemm_edges_every_empty_group_mask(device, num_groups, mode, dtype):
    for sizes in empty_group_masks(num_groups, 45):
        operands = random_operands(sizes, 48, 16, 24, dtype)
        products = check_products(operands, f"sizes {sizes}: ", mode=mode)
        assert not products.drhs[sizes == 0].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("owner", [0, 3, 7])
@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_edges_one_group_has_all_rows(device, mode, owner, dtype):
    """More rows than one block of the CPU path or one tile of a kernel holds."""
    sizes = np.zeros(8, np.int32)
    sizes[owner] = 700
    check_products(random_operands(sizes, 700, 40, 24, dtype), mode=mode)


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["sync", "device"])
@pytest.mark.parametrize(
    ("sizes", "m", "k", "n"),
    [
        ([0, 0, 0], 0, 8, 16),
        ([2, 0, 3], 7, 0, 16),
        ([2, 0, 3], 7, 8, 0),
        ([], 7, 8, 16),
        ([0, 0], 0, 0, 16),
        ([0, 0], 0, 8, 0),
        ([2, 1], 4, 0, 0),
        ([], 0, 8, 16),
        ([], 0, 0, 0),
    ],
    ids=["m=0", "k=0", "n=0", "g=0", "m=k=0", "m=n=0", "k=n=0", "g=m=0", "all=0"],
)
def test_grouped_gemm_edges_empty_axis(
    device, sizes, m, k, n, mode, dtype, transpose_rhs
):
    """An empty axis is legal: empty results, and exact zeros where sums are empty."""
    operands = random_operands(sizes, m, k, n, dtype, transpose_rhs=transpose_rhs)
    products = check_products(operands, mode=mode, transpose_rhs=transpose_rhs)
    if k == 0 or not sizes:
        assert not products.out.any()


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["sync", "device"])
@pytest.mark.parametrize(("k", "n"), ODD)
def test_grouped_gemm_edges_odd_k_and_n(device, k, n, mode, dtype, transpose_rhs):
    operands = random_operands(
        [5, 0, 19, 1], 27, k, n, dtype, transpose_rhs=transpose_rhs
    )
    check_products(operands, mode=mode, transpose_rhs=transpose_rhs)


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize(("k", "n"), [(2050, 1030), (1030, 2050)])
def test_grouped_gemm_edges_wide_weights(device, k, n, dtype, transpose_rhs):
    """A weight matrix larger than the panels that the CPU path converts at once."""
    operands = random_operands([3, 0, 2], 6, k, n, dtype, transpose_rhs=transpose_rhs)
    check_products(operands, transpose_rhs=transpose_rhs)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_grouped_gemm_edges_a_million_rows(device, dtype):
    """One group longer than the largest block of rows of the CPU path."""
    rows = 2**20 + 7
    check_products(random_operands([3, rows, 0, 2], rows + 6, 2, 3, dtype))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("mode", MODES[1:])
def test_grouped_gemm_edges_sizes_around_tiles(device, mode, dtype):
    sizes = [15, 16, 17, 31, 33, 63, 64, 65, 1, 127, 128, 129, 0, 2]
    check_products(random_operands(sizes, None, 72, 88, dtype), mode=mode)
    check_products(random_operands(sizes[::-1], None, 72, 88, dtype), mode=mode)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["sync", "device"])
@pytest.mark.parametrize("num_groups", [1, 2, 32, 33, 512, 1500])
def test_grouped_gemm_edges_number_of_groups(device, num_groups, mode, dtype):
    m = 1600
    for pattern, sizes in size_patterns(num_groups, m).items():
        operands = random_operands(sizes, m, 8, 16, dtype)
        check_products(operands, f"{pattern}: ", mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_edges_more_groups_than_rows(device, mode):
    sizes = np.zeros(700, np.int32)
    sizes[[3, 31, 32, 64, 699]] = 1
    check_products(random_operands(sizes, 6, 8, 16), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_edges_zero_rows_are_positive_zero(device, mode):
    """The tail and empty gradients are +0, not -0: every bit is clear."""
    operands = random_operands([3, 0], 5, 8, 8)
    products = check_products(
        operands._replace(lhs=-abs(operands.lhs), dout=-abs(operands.dout)), mode=mode
    )
    assert_bit_equal(products.out[3:], np.zeros((2, 8), np.float32))
    assert_bit_equal(products.dlhs[3:], np.zeros((2, 8), np.float32))
    assert_bit_equal(products.drhs[1], np.zeros((8, 8), np.float32))
