# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K26: one program of the operation for all sizes, the right one for each shape.

P-083, the persistent cache, is tests/unit/test_compilation_cache.py.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import MODES, random_operands
from support.products import assert_products_close, run_products, truth_of


@pytest.mark.parametrize("mode", MODES)
def test_p081_new_sizes_trace_nothing(device, mode):
    """P-081: 200 vectors of sizes, one trace."""
    rng = np.random.default_rng(0)
    operands = random_operands([16, 16, 16, 16], 64, 8, 12)
    run_products(*operands, mode=mode)
    traced = run_products._cache_size()
    for _ in range(200):
        sizes = rng.multinomial(int(rng.integers(65)), np.full(4, 0.25))
        case = operands._replace(group_sizes=sizes.astype(np.int32))
        assert_products_close(run_products(*case, mode=mode), truth_of(case))
    assert run_products._cache_size() == traced


@pytest.mark.parametrize("mode", MODES)
def test_p082_other_shapes_and_types_in_turn(device, mode):
    """P-082: m in turn, k and n swapped, then another type."""
    shapes = [(m, 24, 40, jnp.float32) for m in (64, 96, 128, 4096, 64)]
    shapes += [(64, 40, 24, jnp.float32), (64, 40, 24, jnp.bfloat16)]
    for m, k, n, dtype in shapes:
        operands = random_operands([m // 2, 0, m // 4], m, k, n, dtype)
        assert_products_close(run_products(*operands, mode=mode), truth_of(operands))
