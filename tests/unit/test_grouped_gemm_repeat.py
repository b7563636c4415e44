# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm` gives the same bits: run to run, eager and compiled, mode to mode."""

import jax
import jax.numpy as jnp
import pytest
from support.child_process import output_of
from support.operands import DTYPES, MODES, random_operands
from support.products import (
    Products,
    assert_products_bit_equal,
    check_products,
    run_products,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, dirty_memory

SIZES = [33, 0, 170, 9, 1, 0, 64, 23]
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def operands_of(dtype, **options):
    return random_operands(SIZES, 320, 72, 56, dtype, **options)


@dtypes
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_grouped_gemm_repeat_same_bits(device, mode, dtype, transpose_rhs):
    options = {"mode": mode, "transpose_rhs": transpose_rhs}
    operands = operands_of(dtype, transpose_rhs=transpose_rhs)
    first = check_products(operands, **options)
    for repeat in range(30):
        if repeat % 10 == 0:
            dirty_memory(device)
        again = run_products(*operands, **options)
        assert_products_bit_equal(again, first, f"repeat {repeat}: ")


@dtypes
@pytest.mark.parametrize("mode", MODES)
def test_grouped_gemm_repeat_eager_and_jit(device, mode, dtype):
    """Called alone, in a program of its own, and amid other work."""
    lhs, rhs, sizes, dout = operands_of(dtype)
    compiled = run_products(lhs, rhs, sizes, dout, mode=mode)
    out, pullback = jax.vjp(
        lambda lhs, rhs: gg.grouped_gemm(lhs, rhs, sizes, mode=mode), lhs, rhs
    )
    eager = Products(out, *pullback(jnp.asarray(dout)))
    assert_products_bit_equal(eager, compiled)

    @jax.jit
    def amid_other_work(lhs, rhs, sizes):
        lhs, rhs = jnp.negative(lhs), jnp.negative(rhs)
        out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode)
        return out, jnp.sum(out)

    assert_bit_equal(amid_other_work(lhs, rhs, sizes)[0], compiled.out)


@dtypes
def test_grouped_gemm_repeat_same_bits_in_every_mode(device, dtype):
    """Sizes known on the host choose tiles, not the order of a sum."""
    operands = operands_of(dtype)
    first = run_products(*operands, mode=MODES[0])
    for mode in MODES[1:]:
        products = run_products(*operands, mode=mode)
        assert_products_bit_equal(products, first, f"{mode}: ")


def test_grouped_gemm_repeat_any_number_of_blas_threads():
    """On a CPU, equal runs agree with several BLAS threads as well."""
    code = """
import hashlib
import numpy as np
import graphsafe_gg as gg
rng = np.random.default_rng(0)
lhs = rng.standard_normal((600, 300), np.float32)
rhs = rng.standard_normal((3, 300, 200), np.float32)
sizes = np.array([500, 0, 90])
digests = {
    hashlib.sha256(np.asarray(gg.grouped_gemm(lhs, rhs, sizes)).tobytes()).hexdigest()
    for _ in range(10)
}
print(len(digests))
"""
    env = {"OPENBLAS_NUM_THREADS": "2", "JAX_PLATFORMS": "cpu"}
    assert output_of(code, env=env).strip() == "1"
