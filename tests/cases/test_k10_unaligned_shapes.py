# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K10: m, k and n that fit no tile and no 16-byte row."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.platforms import is_cuda
from support.products import check_products

modes = pytest.mark.parametrize("mode", MODES)


@modes
@pytest.mark.parametrize("k", [96, 1, 3, 17, 65, 97, 100, 129])
def test_p023_k_beside_the_tile(device, mode, k):
    """P-023: 32 groups of one row, float32."""
    check_products(random_operands([1] * 32, 32, k, 96), mode=mode)


@pytest.mark.parametrize("n", range(8, 513, 8))
def test_p024_every_n_in_steps_of_eight(device, n):
    """P-024: no n picks a tile that leaves elements wrong."""
    for sizes in ([256, 256], [257, 255]):
        operands = random_operands(sizes, 512, 64, n, jnp.bfloat16)
        check_products(operands, f"sizes {sizes}: ", mode="device")


@modes
def test_p024_n_160(device, mode):
    """P-024: the reported shape, in every mode."""
    for sizes in ([256, 256], [257, 255]):
        operands = random_operands(sizes, 512, 64, 160, jnp.bfloat16)
        check_products(operands, f"sizes {sizes}: ", mode=mode)


@pytest.mark.parametrize("mode", ["sync", "device"])
def test_p025_tiles_that_do_not_divide(device, mode):
    """P-025: the weight gradient ends, whatever the number of tiles of a group."""
    k = n = 1408 if is_cuda(device) else 352
    for sizes in ([384, 256], [383, 257], [1, 639]):
        operands = random_operands(sizes, 640, k, n, jnp.bfloat16)
        check_products(operands, f"sizes {sizes}: ", mode=mode)


@modes
def test_p026_weight_gradient_of_each_expert(device, mode):
    """P-026: every expert, not the last one only; no alignment asked of the caller."""
    sizes = [8, 264, 40, 200, 0, 1]
    check_products(random_operands(sizes, 640, 256, 256, jnp.bfloat16), mode=mode)


@modes
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_p027_rows_of_odd_bytes(device, mode, dtype, transpose_rhs):
    """P-027: k = 19, n = 3: no row starts at 16 bytes."""
    operands = random_operands([1] * 6, 6, 19, 3, dtype, transpose_rhs=transpose_rhs)
    check_products(operands, mode=mode, transpose_rhs=transpose_rhs)
    operands = operands._replace(group_sizes=np.array([0, 3, 0, 2, 1, 0], np.int32))
    check_products(operands, mode=mode, transpose_rhs=transpose_rhs)
