# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`route`: choice, weights, ties, NaN and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close, route_truth

from graphsafe_gg.mlp import route


def random_logits(num_tokens, num_experts, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num_tokens, num_experts)).astype(np.float32)


@pytest.mark.parametrize("top_k", [1, 2, 7, 8])
def test_route_basic(top_k):
    logits = random_logits(33, 8)
    weights, expert_idx = route(jnp.asarray(logits), top_k)
    true_weights, true_idx = route_truth(logits, top_k)
    assert weights.dtype == jnp.float32
    assert expert_idx.dtype == jnp.int32
    np.testing.assert_array_equal(expert_idx, true_idx)
    assert_close(weights, true_weights, np.float32, 8)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_route_16_bit_logits_give_float32_weights(dtype):
    logits = jnp.asarray(random_logits(9, 16), dtype)
    weights, expert_idx = route(logits, 4)
    true_weights, true_idx = route_truth(np.asarray(logits, np.float64), 4)
    np.testing.assert_array_equal(expert_idx, true_idx)
    assert_close(weights, true_weights, np.float32, 16)


def test_route_ties_take_the_lowest_expert():
    logits = jnp.asarray([[0.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0]])
    _, expert_idx = jax.jit(route, static_argnums=1)(logits, 2)
    np.testing.assert_array_equal(expert_idx, [[1, 2], [0, 1]])


def test_route_weights_survive_underflow_of_the_other_probabilities():
    weights, expert_idx = route(jnp.asarray([[-200.0, 0.0, -201.0, -202.0]]), 3)
    np.testing.assert_array_equal(expert_idx, [[1, 0, 2]])
    np.testing.assert_allclose(np.sum(weights), 1.0, rtol=1e-6)


def test_route_nan_stays_in_its_row():
    logits = random_logits(4, 8)
    clean = route(jnp.asarray(logits), 2)
    logits[1, 5] = np.nan
    weights, expert_idx = route(jnp.asarray(logits), 2)
    others = [0, 2, 3]
    np.testing.assert_array_equal(weights[np.array(others)], clean[0][np.array(others)])
    assert np.isnan(weights[1]).all()
    assert len(set(np.asarray(expert_idx[1]))) == 2


def random_bias(num_experts=8):
    return np.random.default_rng(9).normal(size=num_experts).astype(np.float32)


ROUTINGS = {
    "mixtral": {"top_k": 2},
    "qwen2-moe": {"top_k": 4, "renormalize": False},
    "gpt-oss": {"top_k": 4, "score": "topk_softmax"},
    "deepseek-v2": {
        "top_k": 3,
        "num_expert_groups": 4,
        "top_k_groups": 2,
        "renormalize": False,
        "scaling_factor": 16.0,
    },
    "deepseek-v3": {
        "top_k": 3,
        "score": "sigmoid",
        "score_bias": random_bias(),
        "num_expert_groups": 4,
        "top_k_groups": 2,
        "scaling_factor": 2.5,
    },
    "groups-of-one": {
        "top_k": 2,
        "score": "sigmoid",
        "score_bias": random_bias(),
        "num_expert_groups": 8,
        "top_k_groups": 3,
    },
}


@pytest.mark.parametrize("model", ROUTINGS)
def test_route_as_models_do(model):
    logits = random_logits(33, 8)
    weights, expert_idx = route(jnp.asarray(logits), **ROUTINGS[model])
    true_weights, true_idx = route_truth(logits, **ROUTINGS[model])
    np.testing.assert_array_equal(expert_idx, true_idx)
    assert_close(weights, true_weights, np.float32, 8)


def test_route_score_bias_moves_the_choice_and_not_the_weights():
    logits, bias = jnp.zeros((1, 4)), jnp.array([0.0, 0.0, 9.0, -9.0])
    route_with = lambda bias: route(logits, 2, score="sigmoid", score_bias=bias)  # noqa: E731
    weights, expert_idx = route_with(bias)
    np.testing.assert_array_equal(expert_idx, [[2, 0]])
    np.testing.assert_array_equal(weights, [[0.5, 0.5]])
    gradient = jax.grad(lambda bias: jnp.sum(route_with(bias)[0] ** 2))(bias)
    np.testing.assert_array_equal(gradient, np.zeros(4))


def test_route_group_counts_as_its_two_best_with_a_bias_and_its_best_without():
    logits = jnp.array([[3.0, -9.0, 2.0, 2.0]])
    options = {"score": "sigmoid", "num_expert_groups": 2, "top_k_groups": 1}
    assert route(logits, 1, **options)[1][0, 0] == 0
    assert route(logits, 1, score_bias=jnp.zeros(4), **options)[1][0, 0] == 2


def test_route_sigmoids_that_underflow_give_zero_weights():
    weights, _ = route(jnp.full((1, 4), -200.0), 2, score="sigmoid")
    np.testing.assert_array_equal(weights, [[0.0, 0.0]])


@pytest.mark.parametrize("model", ROUTINGS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_route_of_bad_logits_stays_in_range(model, bad):
    logits = random_logits(5, 8)
    logits[1] = bad
    logits[2, 3] = bad
    weights, expert_idx = map(np.asarray, route(jnp.asarray(logits), **ROUTINGS[model]))
    assert (expert_idx >= 0).all()
    assert (expert_idx < 8).all()
    assert all(len(set(row)) == len(row) for row in expert_idx)
    true_weights, true_idx = route_truth(logits[[0, 3, 4]], **ROUTINGS[model])
    np.testing.assert_array_equal(expert_idx[[0, 3, 4]], true_idx)
    assert_close(weights[[0, 3, 4]], true_weights, np.float32, 8)
    if np.isnan(bad):
        assert np.isnan(weights[[1, 2]]).all()


def test_route_no_tokens():
    weights, expert_idx = route(jnp.zeros((0, 4)), 2)
    assert weights.shape == expert_idx.shape == (0, 2)


def test_route_grad_matches_dense_softmax():
    logits = random_logits(5, 6)
    cotangent = np.random.default_rng(1).normal(size=(5, 3))

    def loss(values):
        return jnp.sum(route(values, 3)[0] * jnp.asarray(cotangent, jnp.float32))

    grad = jax.grad(loss)(jnp.asarray(logits))
    step = 1e-6
    for position in np.ndindex(*logits.shape):
        moved = np.zeros(logits.shape)
        moved[position] = step
        upper = route_truth(logits + moved, 3)[0]
        lower = route_truth(logits - moved, 3)[0]
        numeric = np.sum((upper - lower) * cotangent) / (2 * step)
        assert abs(float(grad[position]) - numeric) < 1e-5


@pytest.mark.parametrize(
    ("logits", "top_k", "error", "text"),
    [
        (np.zeros((4,), np.float32), 1, ValueError, r"must have shape \(t, g\)"),
        (np.zeros((4, 8), np.int32), 1, TypeError, "must be bfloat16"),
        (np.zeros((4, 8), np.float32), 9, ValueError, "from 1 to 8.*got 9"),
        (np.zeros((4, 8), np.float32), 0, ValueError, "from 1 to 8.*got 0"),
        (np.zeros((4, 8), np.float32), 2.0, TypeError, "must be a Python int"),
    ],
)
def test_route_errors(logits, top_k, error, text):
    with pytest.raises(error, match=rf"^route: .*{text}"):
        route(jnp.asarray(logits), top_k)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"score": "softplus"}, ValueError, "score must be one of 'softmax'"),
        ({"score_bias": np.zeros(7, np.float32)}, ValueError, r"score_bias .*\(8,\)"),
        ({"score_bias": np.zeros(8, int)}, TypeError, "score_bias must be bfloat16"),
        ({"num_expert_groups": 3}, ValueError, "divide the number of experts, 8"),
        ({"num_expert_groups": 0}, ValueError, "num_expert_groups must be from 1 to 8"),
        (
            {"num_expert_groups": 4, "top_k_groups": 5},
            ValueError,
            "top_k_groups must be from 1 to 4",
        ),
        (
            {"num_expert_groups": 4, "top_k_groups": 1},
            ValueError,
            "top_k must be at most 2, the experts of 1 groups; got 3",
        ),
    ],
)
def test_route_errors_of_options(options, error, text):
    with pytest.raises(error, match=rf"^route: .*{text}"):
        route(jnp.zeros((4, 8)), 3, **options)
