# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K08: hundreds and thousands of groups."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import MODES, random_operands
from support.platforms import is_cuda
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

modes = pytest.mark.parametrize("mode", MODES)


def half_empty(rng, num_groups, m):
    shares = rng.dirichlet(np.ones(num_groups)) * (rng.random(num_groups) < 0.5)
    return rng.multinomial(m, shares / shares.sum()).astype(np.int32)


@pytest.mark.parametrize("mode", ["sync", "device"])
@pytest.mark.parametrize("num_groups", [1024, 1025, 2048, 4096])
def test_p017_thousands_of_groups(device, num_groups, mode):
    """P-017: no limit, no truncated prefix sum."""
    sizes = half_empty(np.random.default_rng(0), num_groups, 8192)
    check_products(random_operands(sizes, 8192, 32, 32), mode=mode)


@modes
@pytest.mark.parametrize("num_groups", [256, 512])
def test_p018_hundreds_of_small_groups(device, num_groups, mode):
    """P-018: most groups have one row or none."""
    sizes = np.random.default_rng(0).multinomial(
        512, np.full(num_groups, 1 / num_groups)
    )
    check_products(random_operands(sizes, 512, 64, 64, jnp.bfloat16), mode=mode)


@pytest.mark.gpu
def test_p018_cost_of_groups_is_about_linear(device):
    """P-018: eight times the groups with the same rows cost at most twelve times."""

    def seconds(num_groups):
        sizes = np.full(num_groups, 2, np.int32)
        operands = random_operands(sizes, None, 64, 64, jnp.bfloat16)
        operands = jax.device_put(operands)
        best = np.inf
        for _ in range(10):
            start = time.perf_counter()
            jax.block_until_ready(run_products(*operands, mode="device"))
            best = min(best, time.perf_counter() - start)
        return best

    if is_cuda(device):
        assert seconds(4096) <= 12 * seconds(512)


def test_p019_other_sizes_back_to_back(device):
    """P-019: 2000 calls in flight one behind the other, each with its own sizes."""
    num_calls = 2000 if is_cuda(device) else 60
    rng = np.random.default_rng(0)
    pool = []
    for seed in range(20):
        sizes = half_empty(rng, 256, 512)
        operands = random_operands(sizes, 512, 16, 24, seed=seed)
        pool.append((jax.device_put(operands), truth_of(operands)))
    results = [run_products(*pool[0][0], mode="device")]
    for call in range(1, num_calls):
        results.append(run_products(*pool[call % 20][0], mode="device"))
        if len(results) == 200 or call == num_calls - 1:
            first = call + 1 - len(results)
            for offset, products in enumerate(results):
                truth = pool[(first + offset) % 20][1]
                assert_products_close(products, truth, f"call {first + offset}: ")
            results = []
