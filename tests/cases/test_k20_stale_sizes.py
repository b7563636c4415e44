# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K20: no call serves the sizes of another one. On a GPU each function runs captured
from its second call on, so that these are replays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import (
    assert_products_bit_equal,
    assert_products_close,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_close, size_patterns

M, K, N, G = 96, 40, 56, 8
modes = pytest.mark.parametrize("mode", ["sync", "device", "async"])


def twelve_sizes() -> list[np.ndarray]:
    patterns = size_patterns(G, M)
    names = ["uniform", "one_middle", "half_empty", "all_empty", "short"]
    rng = np.random.default_rng(1)
    drawn = [rng.multinomial(M, rng.dirichlet(np.ones(G))) for _ in range(7)]
    return [patterns[name] for name in names] + [s.astype(np.int32) for s in drawn]


@modes
def test_p057_twelve_calls_with_other_sizes(device, mode):
    """P-057: each of 12 calls is right, in any order, and has the bits of the first."""
    operands = random_operands(np.zeros(G, np.int32), M, K, N)
    all_sizes = twelve_sizes()
    truths = [truth_of(operands._replace(group_sizes=sizes)) for sizes in all_sizes]
    lhs, rhs, _, dout = jax.device_put(operands)
    order = np.random.default_rng(2).permutation(12)
    first = {}
    for index in [*range(12), *order]:
        products = run_products(lhs, rhs, all_sizes[index], dout, mode=mode)
        assert_products_close(products, truths[index], f"sizes {index}: ")
        assert_products_bit_equal(products, first.setdefault(index, products))


@modes
def test_p058_second_call_uses_its_own_sizes(device, mode):
    """P-058: A, then B, then A, without a wait in between."""
    a = random_operands([30, 2, 0, 64], M, K, N)
    b = a._replace(group_sizes=np.array([1, 0, 90, 5], np.int32))
    on_device = [jax.device_put(operands) for operands in (a, b)]
    truths = [truth_of(operands) for operands in (a, b)]
    results = [run_products(*on_device[i % 2], mode=mode) for i in range(10)]
    for i, products in enumerate(results):
        assert_products_close(products, truths[i % 2], f"call {i}: ")


@modes
def test_p059_two_functions_share_nothing(device, mode):
    """P-059: f, g, f, f: no host wait appears in f because g ran."""
    sizes = np.array([5, 0, 17, 9], np.int32)
    f_operands = jax.device_put(random_operands(sizes, 40, 24, 40))
    g_operands = jax.device_put(random_operands(sizes[::-1].copy(), 40, 16, 24))
    truths = {
        "f": truth_of(random_operands(sizes, 40, 24, 40)),
        "g": truth_of(random_operands(sizes[::-1].copy(), 40, 16, 24)),
    }

    def waits(name):
        devices = gg.stats()["devices"]
        return sum(
            d["sites"].get(name, {}).get("host_waits", 0) for d in devices.values()
        )

    def call(which):
        operands = f_operands if which == "f" else g_operands
        name = f"p059.{mode}.{which}"
        before = waits(name)
        products = run_products(*operands, mode=mode, name=name)
        assert_products_close(products, truths[which])
        return waits(name) - before

    grown = [call(which) for which in "fgfffgf"]
    if mode == "device":
        assert not any(grown)
    elif is_cuda(device):
        assert len({grown[0], *grown[2:5], grown[6]}) == 1


def test_p060_other_shapes_in_between(device):
    """P-060: right after 1000 calls of other shapes: no dead host address is kept."""
    num_calls = 1000 if is_cuda(device) else 100
    operands = random_operands([30, 2, 0, 64], M, K, N)
    truth = truth_of(operands)
    shapes = [(8 + 3 * i, 16, 8 + 8 * (i % 3)) for i in range(10)]
    others = [
        jax.device_put(random_operands([m // 2, 0, 1, m // 4], m, k, n))
        for m, k, n in shapes
    ]
    held = jax.device_put(operands)
    for _ in range(3):
        assert_products_close(run_products(*held, mode="device"), truth)
    for call in range(num_calls):
        run_products(*others[call % 10], mode="device")
    for _ in range(3):
        assert_products_close(run_products(*held, mode="device"), truth)


@modes
def test_p061_results_at_fifty_addresses(device, mode):
    """P-061: 50 results kept alive, each in its own buffer, all right."""
    lhs, rhs, sizes, _ = operands = random_operands([30, 2, 0, 64], M, K, N)

    @jax.jit
    def call(lhs, rhs, sizes):
        return gg.grouped_gemm(lhs, rhs, sizes, mode=mode)

    on_device = jax.device_put((lhs, rhs, sizes))
    results = [call(*on_device) for _ in range(50)]
    assert len({array.unsafe_buffer_pointer() for array in results}) == 50
    truth = truth_of(operands).out
    for index, out in enumerate(results):
        assert_close(out, truth, what=f"result {index}")


@modes
def test_p061_operands_at_many_addresses(device, mode):
    """P-061: fresh buffers for every operand at every call, old ones kept."""
    kept = []
    for seed in range(12):
        operands = random_operands([30, 2, 0, 64], M, K, N, jnp.bfloat16, seed=seed)
        on_device = jax.device_put(operands)
        kept.append((operands, on_device, run_products(*on_device, mode=mode)))
    for operands, _, products in kept:
        assert_products_close(products, truth_of(operands))
