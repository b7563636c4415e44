# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Who waits on the host: mode device never, sync and async once for each product."""

import jax
import jax.numpy as jnp
import pytest
from support.growth import growth
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import check_products, run_products

import graphsafe_gg as gg

pytestmark = pytest.mark.gpu

SIZES = [30, 0, 5, 61]
NUM_CALLS = 10


@pytest.mark.parametrize(
    ("mode", "waits"), [("device", 0), ("auto", 0), ("sync", 3), ("async", 3)]
)
def test_device_waits_of_each_mode(device, mode, waits):
    """A call and its two gradients are three products."""
    operands = jax.device_put(random_operands(SIZES, 96, 24, 40))
    site = f"waits.{mode}"
    run_products(*operands, mode=mode, name=site)
    with growth(device, site) as grown, growth(device) as total:
        for _ in range(NUM_CALLS):
            jax.block_until_ready(run_products(*operands, mode=mode, name=site))
    if is_cuda(device):
        assert grown.executions >= 3 * NUM_CALLS
        assert grown.host_waits == waits * NUM_CALLS
        assert total.host_waits == waits * NUM_CALLS
        assert (grown.host_wait_us > 0) == (waits > 0)


def test_device_waits_only_for_its_sizes(device):
    """Mode device returns before the work ahead of it is done: nothing is read."""
    operands = random_operands(SIZES, 96, 24, 40)
    large = jnp.ones((4096, 4096)) if is_cuda(device) else jnp.ones((64, 64))

    @jax.jit
    def after_long_work(x, lhs, rhs, sizes):
        for _ in range(30):
            x = jnp.tanh(jnp.dot(x, x) / 4096)
        sizes = sizes + (x[0, 0] * 0).astype(sizes.dtype)
        return gg.grouped_gemm(lhs, rhs, sizes, mode="device", name="waits.behind")

    on_device = jax.device_put(operands[:3])
    for _ in range(3):
        jax.block_until_ready(after_long_work(large, *on_device))
    with growth(device) as grown:
        out = after_long_work(large, *on_device)
        was_ready = out.is_ready()
        out.block_until_ready()
    if is_cuda(device):
        assert not was_ready
        assert grown.host_waits == 0


def test_device_waits_early_copy_is_used(device):
    """Async with its copy made early counts no fallback."""
    operands = random_operands(SIZES, 96, 24, 40)

    @jax.jit
    def call(lhs, rhs, sizes):
        lhs, sizes = gg.copy_group_sizes(sizes, before=lhs)
        return gg.grouped_gemm(lhs * 1, rhs, sizes, mode="async", name="waits.early")

    expected = check_products(operands, mode="device").out
    for _ in range(NUM_CALLS):
        out = call(*operands[:3])
        assert (out == expected).all()
    if is_cuda(device):
        site = gg.stats()["devices"][device.id]["sites"]["waits.early"]
        assert site["fallbacks"] == {}
        assert site["host_waits"] == NUM_CALLS
