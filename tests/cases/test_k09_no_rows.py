# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K09: no rows, or all groups empty."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import DTYPES, MODES, random_operands
from support.products import check_products, run_products

import graphsafe_gg as gg
from graphsafe_gg.mlp import permute, unpermute

modes = pytest.mark.parametrize("mode", MODES)


@modes
@pytest.mark.parametrize("dtype", DTYPES)
def test_p020_no_rows(device, mode, dtype):
    """P-020: eager, jit, grad, value_and_grad and eval_shape; drhs is zeros."""
    operands = random_operands([0, 0, 0, 0], 0, 224, 256, dtype)
    lhs, rhs, sizes, _ = operands
    assert gg.grouped_gemm(lhs, rhs, sizes, mode=mode).shape == (0, 256)
    products = check_products(operands, mode=mode)
    assert [array.shape for array in products] == [(0, 256), (0, 224), (4, 224, 256)]
    assert not products.drhs.any()
    shapes = jax.eval_shape(lambda *a: run_products(*a, mode=mode), *operands)
    assert [array.shape for array in shapes] == [array.shape for array in products]

    def loss(lhs, rhs):
        return jnp.sum(gg.grouped_gemm(lhs, rhs, sizes, mode=mode))

    value, grads = jax.value_and_grad(loss, (0, 1))(lhs, rhs)
    assert value == 0
    assert not np.asarray(grads[1]).any()


@modes
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_p021_all_rows_are_padding(device, mode, dtype, transpose_rhs):
    """P-021: result and both gradients are zeros of the right shape."""
    operands = random_operands([0] * 8, 64, 32, 32, dtype, transpose_rhs=transpose_rhs)
    products = check_products(operands, mode=mode, transpose_rhs=transpose_rhs)
    assert not any(array.any() for array in products)


@modes
@pytest.mark.parametrize(("k", "n"), [(0, 32), (32, 0), (0, 0)])
def test_p022_rows_without_columns(device, mode, k, n):
    """P-022: k = 0 or n = 0 with rows."""
    check_products(random_operands([3, 0, 5], 9, k, n), mode=mode)


@modes
def test_p022_layer_without_tokens(device, mode):
    """P-022: permute, sizes, activation and combine of no tokens, and gradients."""
    tokens = np.zeros((0, 16), np.float32)
    w_gate_up = np.ones((4, 16, 16), np.float32)
    w_down = np.ones((4, 8, 16), np.float32)
    logits = np.zeros((0, 4), np.float32)

    @jax.jit
    def step(*operands):
        def loss(*operands):
            out = gg.moe_mlp(operands[0], logits, *operands[1:], top_k=2, mode=mode)
            return jnp.sum(out), out

        return jax.grad(loss, (0, 1, 2), has_aux=True)(*operands)

    (dtokens, *dweights), out = step(tokens, w_gate_up, w_down)
    assert out.shape == dtokens.shape == (0, 16)
    assert not any(np.asarray(dweight).any() for dweight in dweights)
    rows, sizes, permutation = permute(tokens, np.zeros((0, 2), np.int32), 4)
    assert rows.shape == (0, 16)
    assert sizes.tolist() == [0] * 4
    assert unpermute(rows, permutation, np.zeros((0, 2), np.float32)).shape == (0, 16)
    assert gg.group_sizes_of(np.zeros((0, 2), np.int32), 4).sizes.tolist() == [0] * 4
