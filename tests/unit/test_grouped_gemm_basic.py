# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm`: result and both gradients, over modes, types, layouts and sizes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.products import check_products, run_products, truth_of

import graphsafe_gg as gg
from graphsafe_gg.testing import (
    assert_bit_equal,
    assert_close,
    reference_grouped_gemm,
    size_patterns,
)

M, K, N, G = 97, 24, 40, 6
PATTERNS = size_patterns(G, M)


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_grouped_gemm_basic(device, pattern, mode, dtype, transpose_rhs):
    operands = random_operands(
        PATTERNS[pattern], M, K, N, dtype, transpose_rhs=transpose_rhs
    )
    products = check_products(operands, mode=mode, transpose_rhs=transpose_rhs)
    assert {array.dtype for array in products} == {np.dtype(dtype)}


@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_preferred_element_type(device, mode, dtype, out_dtype):
    """The result is rounded once, from float32; gradients keep the operands' type."""
    operands = random_operands(
        PATTERNS["short"], M, K, N, dtype, out_dtype=out_dtype, seed=1
    )
    products = check_products(operands, mode=mode, preferred_element_type=out_dtype)
    assert products.out.dtype == out_dtype
    assert {products.dlhs.dtype, products.drhs.dtype} == {np.dtype(dtype)}


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_on_each_device(device, mode):
    operands = random_operands(PATTERNS["dirichlet"], M, K, N)
    out = gg.grouped_gemm(*operands[:3], mode=mode)
    assert out.devices() == {device}


def test_grouped_gemm_accepts_lists(device):
    lhs, rhs, sizes, _ = random_operands([2, 0, 3], 6, 4, 5)
    out = gg.grouped_gemm(lhs.tolist(), rhs.tolist(), sizes.tolist())
    assert_bit_equal(out, gg.grouped_gemm(lhs, rhs, sizes))


def test_grouped_gemm_sizes_made_inside_jit(device):
    """The sizes come from a computation of the same program."""
    operands = random_operands(PATTERNS["power_law"], M, K, N)
    lhs, rhs, sizes, _ = operands
    group_of_row = np.repeat(np.arange(G), sizes)

    @jax.jit
    def step(lhs, rhs, group_of_row):
        return gg.grouped_gemm(lhs, rhs, jnp.bincount(group_of_row, length=G))

    assert_close(step(lhs, rhs, group_of_row), truth_of(operands).out)


def test_grouped_gemm_sizes_change_between_calls(device):
    """One compiled function, other sizes at each call."""
    for pattern, sizes in PATTERNS.items():
        check_products(random_operands(sizes, M, K, N), f"{pattern}: ", mode="device")


def test_grouped_gemm_eval_shape():
    lhs = jax.ShapeDtypeStruct((M, K), jnp.bfloat16)
    rhs = jax.ShapeDtypeStruct((G, N, K), jnp.bfloat16)
    sizes = jax.ShapeDtypeStruct((G,), jnp.int32)

    def call(*operands):
        return gg.grouped_gemm(
            *operands, transpose_rhs=True, preferred_element_type=jnp.float32
        )

    assert jax.eval_shape(call, lhs, rhs, sizes) == jax.ShapeDtypeStruct(
        (M, N), jnp.float32
    )


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_mode_names_its_targets(device, mode):
    """The program calls what was asked for; auto takes device, in the gradient too."""
    operands = random_operands(PATTERNS["uniform"], M, K, N)
    text = run_products.lower(*operands, mode=mode).as_text()
    chosen = "device" if mode == "auto" else mode
    targets = re.findall(r"@graphsafe_gg_(grouped_gemm|drhs)_(\w+)_v2", text)
    assert sorted(targets) == [
        ("drhs", chosen),
        ("grouped_gemm", chosen),
        ("grouped_gemm", chosen),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_large_values_overflow_only_at_the_store(device, mode):
    """float16 sums pass 65504 inside; only a result that does is Inf."""
    lhs = np.full((2, 64), 200.0, np.float16)
    rhs = np.full((2, 64, 8), 200.0, np.float16)
    rhs[0, 32:] *= -1  # partial sums reach 1.28e6 and come back to zero
    sizes = np.array([1, 1], np.int32)
    out = np.asarray(gg.grouped_gemm(lhs, rhs, sizes, mode=mode))
    assert (out[0] == 0).all()
    assert np.isposinf(out[1]).all()
    wide = gg.grouped_gemm(
        lhs, rhs, sizes, mode=mode, preferred_element_type=jnp.float32
    )
    assert (np.asarray(wide)[1] == 64 * 200.0 * 200.0).all()


@pytest.mark.parametrize(
    ("dtype", "half"), [(jnp.bfloat16, 2**-8), (jnp.float16, 2**-11)]
)
def test_grouped_gemm_rounds_ties_to_even(device, dtype, half):
    """Sums that lie between two results of 16 bits take the even one."""
    lhs = np.array([[1, 0, half], [1, 2 * half, half], [-1, 0, -half]]).astype(dtype)
    rhs = np.ones((1, 3, 8), dtype)
    out = gg.grouped_gemm(lhs, rhs, np.array([3], np.int32))
    expected = np.array([1, 1 + 4 * half, -1]).astype(dtype)
    assert_bit_equal(out, np.repeat(expected[:, None], 8, 1))


@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_float16_subnormals_are_numbers(device, mode):
    """Operands and results below 2^-14 are not zero."""
    subnormals = np.arange(1, 1024, dtype=np.uint16).view(np.float16)
    lhs = np.stack([subnormals, -subnormals])
    rhs = np.stack([np.full((1023, 8), 2.0**-9), np.full((1023, 8), 1.0)])
    sizes = np.array([1, 1], np.int32)
    operands = (lhs, rhs.astype(np.float16), sizes)
    out = gg.grouped_gemm(*operands, mode=mode)
    assert_close(out, reference_grouped_gemm(*operands))
    assert 0 < np.abs(np.asarray(out)[0]).max() < 2.0**-14


def test_run_products_is_one_program_for_all_sizes(device):
    """The sizes are data: other values compile nothing new."""
    for sizes in ([3, 4, 5], [0, 12, 0], [1, 1, 1]):
        run_products(*random_operands(sizes, 12, 7, 9), mode="device")
    before = run_products._cache_size()
    run_products(*random_operands([12, 0, 0], 12, 7, 9), mode="device")
    assert run_products._cache_size() == before
