# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K23: several devices in one process, here CPU devices. Two simulated GPUs are in
tests/sim; a machine with two real ones runs these on them too."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from support.operands import MODES, random_operands
from support.products import assert_products_close, run_products, truth_of

import graphsafe_gg as gg


def all_devices():
    cpus = jax.devices("cpu")
    try:
        gpus = jax.devices("cuda")
    except RuntimeError:
        gpus = []
    return gpus if len(gpus) > 1 else cpus


@pytest.mark.parametrize("mode", MODES)
def test_p071_result_lies_where_the_operands_are(mode):
    """P-071: every device in turn, out of order."""
    devices = all_devices()
    assert len(devices) > 1
    operands = random_operands([5, 0, 17, 9], 40, 24, 40)
    truth = truth_of(operands)
    for device in [devices[-1], devices[0], devices[-1]]:
        products = run_products(*jax.device_put(operands, device), mode=mode)
        assert products.out.devices() == {device}
        assert_products_close(products, truth)


@pytest.mark.parametrize("mode", ["async", "device"])
def test_p072_each_shard_uses_its_own_sizes(mode):
    """P-072: different sizes on each device at every step, none on one of them."""
    devices = all_devices()[:2]
    mesh = Mesh(np.array(devices), ("x",))
    rows, width, groups = 32, 8, 4
    scales = np.arange(1, groups + 1, dtype=np.float32)
    rhs = np.eye(width, dtype=np.float32) * scales[:, None, None]
    spec = PartitionSpec("x")

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(spec, spec),
        out_specs=spec,
        check_vma=False,
    )
    def program(x, sizes):
        x, copied = gg.copy_group_sizes(sizes[0], before=x)
        return gg.grouped_gemm(x, jnp.asarray(rhs), copied, mode=mode, name="p072")

    rng = np.random.default_rng(0)
    for step in range(50):
        sizes = np.stack(
            [rng.multinomial(rows, rng.dirichlet(np.ones(groups))) for _ in devices]
        ).astype(np.int32)
        sizes[step % 2] *= step % 3 != 0
        out = np.asarray(program(np.ones((2 * rows, width), np.float32), sizes))
        for shard, own in enumerate(sizes):
            want = np.zeros(rows, np.float32)
            want[: own.sum()] = np.repeat(scales, own)
            assert (out[shard * rows : (shard + 1) * rows, 0] == want).all()
