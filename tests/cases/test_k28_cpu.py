# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K28: machines without a GPU, and CPU arrays on machines with one."""

import functools

import jax
import jax.numpy as jnp
import pytest
from jax import export
from support.child_process import output_of
from support.operands import MODES, random_operands
from support.products import (
    Products,
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import (
    assert_bit_equal,
    assert_close,
    reference_grouped_gemm,
)

modes = pytest.mark.parametrize("mode", MODES)
SIZES = [2, 0, 4]


def odd_operands(**options):
    return random_operands(SIZES, 6, 8, 5, **options)


def test_p087_import_and_call_without_a_gpu():
    """P-087: importing starts no backend; without a visible GPU the CPU runs.

    Installing the wheel in an empty environment is tested by tests/install.
    """
    code = """
import sys
import graphsafe_gg as gg
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
assert "graphsafe_gg.testing" not in sys.modules
import numpy as np
out = gg.grouped_gemm(
    np.ones((4, 3), np.float32), np.ones((2, 3, 5), np.float32), np.array([1, 2])
)
assert out.tolist() == [[3.0] * 5] * 3 + [[0.0] * 5]
assert gg.check() is None
print(gg.stats()["devices"])
"""
    env = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    assert output_of(code, env=env).strip() == "{}"


@modes
def test_p088_cpu_arrays_stay_on_the_cpu(device, mode):
    """P-088: operands on a CPU device run there, eager, jit and grad.

    On a GPU machine the default device of this test is the GPU: nothing is launched.
    """
    cpu = jax.devices("cpu")[0]
    operands = jax.device_put(odd_operands(), cpu)
    before = gg.stats()["devices"]
    out = gg.grouped_gemm(*operands[:3], mode=mode)
    products = run_products(*operands, mode=mode)
    grad = jax.grad(lambda lhs: gg.grouped_gemm(lhs, *operands[1:3], mode=mode).sum())(
        operands.lhs
    )
    for array in (out, *products, grad):
        assert array.devices() == {cpu}
    assert_products_close(products, truth_of(odd_operands()))
    assert_bit_equal(out, products.out)
    after = gg.stats()["devices"]
    assert {i: d["launches"] for i, d in after.items()} == {
        i: d["launches"] for i, d in before.items()
    }


@modes
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_p089_odd_shapes_in_every_mode(device, mode, dtype):
    """P-089: jit and grad work for shapes without any alignment."""
    check_products(odd_operands(dtype=dtype), mode=mode)


@modes
def test_p089_vmap_and_map(device, mode):
    """P-089: a batch of calls, by vmap as by lax.map, gives what each call gives."""
    lhs, rhs, sizes, _ = odd_operands()
    batch = jnp.stack([lhs, 2 * lhs])

    def call(lhs):
        return gg.grouped_gemm(lhs, rhs, sizes, mode=mode)

    for batched in (jax.vmap(call), functools.partial(jax.lax.map, call)):
        first, second = batched(batch)
        assert_close(first, reference_grouped_gemm(lhs, rhs, sizes))
        assert_close(second, reference_grouped_gemm(2 * lhs, rhs, sizes))


@modes
def test_p089_export(device, mode):
    """P-089: a program with the call and its gradient is exported and called again.

    JAX promises no compatibility of custom calls, so each target is named.
    """
    operands = odd_operands()
    checks = gg.export_safety_checks()
    call = jax.jit(lambda *a: tuple(run_products(*a, mode=mode)))
    exported = export.export(call, disabled_checks=checks)(*operands)
    assert_products_close(Products(*exported.call(*operands)), truth_of(operands))
