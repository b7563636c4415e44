# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K01: groups without rows."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.child_process import output_of
from support.operands import MODES, random_operands
from support.products import check_products

import graphsafe_gg as gg
from graphsafe_gg.testing import dirty_memory

modes = pytest.mark.parametrize("mode", MODES)


@modes
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_p001_most_experts_have_no_tokens(device, mode, dtype):
    """P-001: ends, and every row is right, forward and gradients."""
    sizes = [0, 16, 0, 0, 24, 0, 8, 0]
    check_products(random_operands(sizes, 48, 64, 64, dtype), mode=mode)


@modes
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_p002_empty_groups_in_every_position(device, mode, dtype):
    """P-002: no pointer of an empty group is looked at."""
    patterns = [[0, 0, 0, 32], [32, 0, 0, 0], [0, 16, 16, 0], [16, 0, 0, 16]]
    patterns += [[0, 12, 8, 12], [12, 8, 12, 0], [12, 0, 8, 12], [12, 8, 0, 12]]
    for sizes in patterns:
        operands = random_operands(sizes, 32, 64, 32, dtype)
        check_products(operands, f"{sizes}: ", mode=mode)


def mlp_digest(mode: str) -> str:
    """Hash of result and gradients of an MLP with two of 16 experts in use."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((128, 64), np.float32)
    w_gate_up = rng.standard_normal((16, 64, 2 * 64), np.float32)
    w_down = rng.standard_normal((16, 64, 64), np.float32)
    sizes = np.zeros(16, np.int32)
    sizes[[3, 9]] = [70, 58]

    @jax.jit
    def step(x, w_gate_up, w_down):
        def loss(*operands):
            out = gg.grouped_mlp(*operands, sizes, mode=mode)
            return jnp.sum(jnp.sin(out)), out

        return jax.value_and_grad(loss, (0, 1, 2), has_aux=True)(x, w_gate_up, w_down)

    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(step(x, w_gate_up, w_down)):
        assert np.isfinite(leaf).all()
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("mode", ["sync", "device"])
def test_p003_idle_experts_leave_nothing_unset(device, mode):
    """P-003: in dirty memory the same bits as in a process that starts with this."""
    dirty_memory(device)
    here = mlp_digest(mode)
    code = "import sys; sys.path[:0] = ['..', '../cases']\n"
    code += "import test_k01_zero_size_groups as case\n"
    code += f"print(case.mlp_digest({mode!r}))"
    assert output_of(code, device=device).split() == [here]
