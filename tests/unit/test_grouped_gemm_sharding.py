# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm` on several devices: shard_map, and programs side by side.

Two CPU devices stand in for two of any kind.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from support.operands import MODES, random_operands
from support.products import assert_products_close, run_products, truth_of

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, assert_close, reference_grouped_gemm

modes = pytest.mark.parametrize("mode", MODES)
# Sizes are given per device: rows 0..19 with [5, 15], rows 20..39 with [12, 3].
SIZES = np.array([[5, 15], [12, 3]], np.int32)


def mesh_of_two():
    devices = np.array(jax.devices("cpu")[:2])
    return jax.sharding.Mesh(devices, ("x",))


@modes
def test_grouped_gemm_sharding_rows(mode):
    """Rows and sizes are split, weights are not: data parallelism, default checks."""
    lhs, rhs, _, dout = random_operands([20, 20], 40, 16, 24)
    mesh = mesh_of_two()

    @jax.jit
    @jax.shard_map(
        mesh=mesh,
        in_specs=(P("x"), P(), P("x"), P("x")),
        out_specs=(P("x"),) * 2 + (P(),),
    )
    def step(lhs, rhs, sizes, dout):
        def call(lhs, rhs):
            return gg.grouped_gemm(lhs, rhs, sizes[0], mode=mode)

        out, pullback = jax.vjp(call, lhs, rhs)
        return out, *pullback(dout)

    put = [
        jax.device_put(array, NamedSharding(mesh, spec))
        for array, spec in ((lhs, P("x")), (rhs, P()), (SIZES, P("x")), (dout, P("x")))
    ]
    out, dlhs, drhs = step(*put)
    halves = [
        truth_of(
            random_operands([20, 20], 40, 16, 24)._replace(
                lhs=lhs[rows], dout=dout[rows], group_sizes=sizes
            )
        )
        for rows, sizes in ((np.s_[:20], SIZES[0]), (np.s_[20:], SIZES[1]))
    ]
    for half, rows in zip(halves, (np.s_[:20], np.s_[20:]), strict=True):
        assert_close(out[rows], half.out)
        assert_close(dlhs[rows], half.dlhs)
    # The weights are replicated: their gradient is the sum over the devices.
    expected = halves[0].drhs.value + halves[1].drhs.value
    np.testing.assert_allclose(drhs, expected, rtol=1e-5, atol=1e-4)


@modes
def test_grouped_gemm_sharding_experts(mode):
    """Experts are split, each device has the rows of its own: no double sum."""
    lhs, rhs, _, dout = random_operands([10, 10, 10, 10], 40, 16, 24)
    local_sizes = np.array([[5, 15], [12, 3]], np.int32)
    mesh = mesh_of_two()

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def step(lhs, rhs, sizes, dout):
        def loss(lhs, rhs):
            return jnp.sum(gg.grouped_gemm(lhs, rhs, sizes[0], mode=mode) * dout)

        return jax.grad(loss, (0, 1))(lhs, rhs)

    dlhs, drhs = step(lhs, rhs, local_sizes, dout)
    for index in range(2):
        rows = slice(20 * index, 20 * index + 20)
        groups = slice(2 * index, 2 * index + 2)
        operands = random_operands([10] * 4, 40, 16, 24)
        truth = truth_of(
            type(operands)(lhs[rows], rhs[groups], local_sizes[index], dout[rows])
        )
        assert_close(dlhs[rows], truth.dlhs)
        assert_close(drhs[groups], truth.drhs)


def test_grouped_gemm_sharding_early_copy():
    """Each device copies the sizes of its own rows and waits for its own copy."""
    operands = random_operands([20, 20], 40, 16, 24)
    lhs, rhs, _, _ = operands
    mesh = mesh_of_two()

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=(P("x"), P(), P("x")), out_specs=P("x"))
    def step(lhs, rhs, sizes):
        lhs, sizes = gg.copy_group_sizes(sizes[0], before=lhs)
        return gg.grouped_gemm(lhs, rhs, sizes, mode="async")

    out = step(lhs, rhs, SIZES)
    for rows, sizes in ((np.s_[:20], SIZES[0]), (np.s_[20:], SIZES[1])):
        assert_close(out[rows], reference_grouped_gemm(lhs[rows], rhs, sizes))


@modes
def test_grouped_gemm_sharding_replicated(mode):
    """All operands replicated: the result is too, with default checks."""
    operands = random_operands([5, 0, 15], 24, 16, 24)
    mesh = mesh_of_two()

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=P(), out_specs=P())
    def step(*operands):
        return run_products(*operands, mode=mode)

    assert_products_close(step(*operands), truth_of(operands))


@modes
def test_grouped_gemm_sharding_two_devices_in_turn(mode):
    """One compiled function, two devices, calls interleaved with other sizes."""
    first, second = jax.devices("cpu")[:2]
    a = random_operands([5, 0, 15], 24, 16, 24)
    b = a._replace(group_sizes=np.array([0, 20, 2], np.int32))
    put = [(jax.device_put(a, first), a), (jax.device_put(b, second), b)]
    results = [(run_products(*put[i % 2][0], mode=mode), i % 2) for i in range(8)]
    for products, which in results:
        assert products.out.devices() == {(first, second)[which]}
        assert_products_close(products, truth_of(put[which][1]))
    assert_bit_equal(results[0][0].out, results[2][0].out)
