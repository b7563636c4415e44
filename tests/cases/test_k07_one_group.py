# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K07: a single group."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, poison_tail, random_operands
from support.products import check_products

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

modes = pytest.mark.parametrize("mode", MODES)


@modes
@pytest.mark.parametrize("dtype", DTYPES)
def test_p016_one_group_in_a_padded_buffer(device, mode, dtype):
    """P-016: equals the dense product on 300 rows; NaN in the tail reaches nothing."""
    operands = random_operands([300], 512, 256, 256, dtype)
    clean = check_products(operands, mode=mode)
    poisoned = check_products(poison_tail(operands), mode=mode)
    jax.tree.map(assert_bit_equal, poisoned, clean)


@modes
def test_p016_one_group_through_the_mlp(device, mode):
    """P-016: the layer's gradients do not depend on the tail."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 64), np.float32)
    w_gate_up = rng.standard_normal((1, 64, 128), np.float32) / 8
    w_down = rng.standard_normal((1, 64, 64), np.float32) / 8
    sizes = np.array([300], np.int32)

    @jax.jit
    def grads(x):
        def loss(x, w_gate_up, w_down):
            return jnp.sum(gg.grouped_mlp(x, w_gate_up, w_down, sizes, mode=mode) ** 2)

        return jax.grad(loss, (0, 1, 2))(x, w_gate_up, w_down)

    clean = grads(x)
    x[300:] = np.nan
    jax.tree.map(assert_bit_equal, grads(x), clean)
    assert_bit_equal(clean[0][300:], np.zeros((212, 64), np.float32))
