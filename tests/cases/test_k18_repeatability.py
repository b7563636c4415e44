# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K18: the same operands give the same bits."""

import hashlib
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.child_process import output_of
from support.operands import DTYPES, random_operands
from support.platforms import is_cuda
from support.products import run_products

import graphsafe_gg as gg

modes = pytest.mark.parametrize("mode", ["sync", "device", "async"])


def digest_of(leaves) -> str:
    digest = hashlib.sha256()
    for leaf in leaves:
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


@modes
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [64, 4096])
def test_p051_many_repeats_with_other_work(device, mode, dtype, m):
    """P-051: the hashes agree while another thread keeps the device busy."""
    sizes = np.random.default_rng(0).multinomial(m, np.full(16, 1 / 16))
    operands = jax.device_put(random_operands(sizes, m, 64, 48, dtype))
    noise = jax.device_put(random_operands(sizes[::-1], m, 48, 64, dtype))
    is_done = threading.Event()

    def keep_busy():
        while not is_done.is_set():
            jax.block_until_ready(run_products(*noise, mode="device"))

    other = threading.Thread(target=keep_busy)
    other.start()
    try:
        num_repeats = 150 if is_cuda(device) else 10
        digests = {
            digest_of(run_products(*operands, mode=mode)) for _ in range(num_repeats)
        }
    finally:
        is_done.set()
        other.join()
    assert len(digests) == 1


def mlp_digest(mode: str) -> str:
    rng = np.random.default_rng(5)
    x, w_gate_up, w_down = (
        jnp.asarray(rng.standard_normal(shape, np.float32), jnp.bfloat16)
        for shape in ((96, 64), (8, 64, 128), (8, 64, 64))
    )
    sizes = np.array([10, 0, 30, 1, 2, 0, 40, 3], np.int32)

    @jax.jit
    def step(*operands):
        def loss(*operands):
            out = gg.grouped_mlp(*operands, sizes, mode=mode).astype(jnp.float32)
            return jnp.sum(out * out)

        return jax.value_and_grad(loss, (0, 1, 2))(*operands)

    return digest_of(jax.tree.leaves(step(x, w_gate_up, w_down)))


def test_p052_same_bits_in_another_process_and_mode(device):
    """P-052: the layer's bits agree between processes, and between modes."""
    code = "import sys; sys.path[:0] = ['..', '../cases']\n"
    code += "import test_k18_repeatability as case\n"
    code += "print(*(case.mlp_digest(m) for m in ('device', 'sync', 'async')))"
    there = output_of(code, device=device).split()
    here = [mlp_digest(mode) for mode in ("device", "sync", "async")]
    assert there == here
    assert len(set(here)) == 1
