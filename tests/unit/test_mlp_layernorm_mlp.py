# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_layernorm_mlp`: edges and errors; values are in test_mlp_options.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close, grouped_mlp_truth, norm_truth

import graphsafe_gg as gg

H, F, G = 16, 6, 3


def random_operands(num_rows=7):
    rng = np.random.default_rng(0)
    shapes = ((num_rows, H), (H,), (G, H, 2 * F), (G, F, H))
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_grouped_layernorm_mlp_epsilon_and_8_bit_sizes(norm):
    x, gamma, *weights = random_operands(num_rows=300)
    x *= 1e-3
    sizes = np.array([150, 0, 150], np.uint8)
    out = gg.grouped_layernorm_mlp(x, gamma, *weights, sizes, norm=norm, epsilon=1e-2)
    truth = norm_truth(x, gamma, norm=norm, epsilon=1e-2)
    assert_close(out, grouped_mlp_truth(truth, *weights, sizes), np.float32, H, F)


def test_grouped_layernorm_mlp_no_rows():
    x, gamma, *weights = random_operands(num_rows=0)
    loss = lambda *a: jnp.sum(gg.grouped_layernorm_mlp(*a, np.zeros(G, np.int32)))  # noqa: E731
    gradients = jax.grad(loss, (0, 1, 2, 3))(x, gamma, *weights)
    assert not any(np.asarray(gradient).any() for gradient in gradients)


def test_grouped_layernorm_mlp_beta_reaches_no_row_past_the_sum():
    x, gamma, *weights = random_operands()
    beta, sizes = np.full(H, 9, np.float32), np.array([2, 0, 1], np.int32)
    out = gg.grouped_layernorm_mlp(x, gamma, *weights, sizes, beta=beta)
    np.testing.assert_array_equal(out[3:], np.zeros((4, H)))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"norm": "batchnorm"}, ValueError, "norm must be one of 'layernorm'"),
        (
            {"norm": "rmsnorm", "beta": np.zeros(H, np.float32)},
            ValueError,
            "beta must be None for norm 'rmsnorm'",
        ),
        ({"gamma": np.zeros(9, np.float32)}, ValueError, r"gamma .* \(16,\)"),
        ({"beta": np.zeros(9, np.float32)}, ValueError, r"beta must .* \(16,\)"),
        ({"gamma": np.zeros(H, int)}, TypeError, "gamma must be bfloat16"),
        ({"x": np.zeros(H, np.float32)}, ValueError, r"x must have shape \(m, h\)"),
        ({"group_sizes": np.zeros(4, int)}, ValueError, r"group_sizes .*\(3,\)"),
        ({"interleave": True}, TypeError, "the call must have options out of"),
    ],
)
def test_grouped_layernorm_mlp_errors(change, error, text):
    names = ("x", "gamma", "w_gate_up", "w_down", "group_sizes")
    operands = [*random_operands(), np.array([3, 0, 4], np.int32)]
    call = {**dict(zip(names, operands, strict=True)), **change}
    with pytest.raises(error, match=rf"^grouped_layernorm_mlp: {text}"):
        jax.eval_shape(lambda: gg.grouped_layernorm_mlp(**call))
