# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Operands against unmapped pages: a kernel that reads past one would fault."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.guarded import launch
from support.operands import random_operands
from support.platforms import is_cuda

from graphsafe_gg.testing import assert_close, reference_grouped_gemm

pytestmark = pytest.mark.gpu

# Axes that tiles do not divide; the last group ends with the operand.
SHAPES = {
    "few_rows": ([3, 0, 1, 9], 13, 200, 136),
    "many_rows": ([70, 0, 600, 31], 701, 136, 264),
    "middle": ([70, 0, 100, 31], 201, 72, 264),
    "odd": ([70, 0, 61, 31], 162, 67, 45),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize("at_start", [False, True], ids=["end", "start"])
def test_device_unmapped(device, dtype, shape, transpose_rhs, at_start):
    if not is_cuda(device):
        pytest.skip("unmapped pages are the driver's")
    unmapped = pytest.importorskip("support.unmapped")
    sizes, m, k, n = SHAPES[shape]
    operands = random_operands(sizes, m, k, n, dtype, transpose_rhs=transpose_rhs)
    lhs, rhs, group_sizes, _ = operands
    out = np.full((m, n), np.nan, lhs.dtype)
    held = [
        unmapped.Unmapped(device, np.asarray(array), at_start=at_start)
        for array in (lhs, rhs, group_sizes, out)
    ]
    arrays = [array.array for array in held]
    assert launch(device, False, arrays, transpose_rhs=transpose_rhs) is None
    truth = reference_grouped_gemm(lhs, rhs, group_sizes, transpose_rhs=transpose_rhs)
    assert_close(held[3].read(), truth)
    for array in held:
        array.free()
