# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The reference of the command: right by itself, and it finds what is wrong."""

import jax.numpy as jnp
import numpy as np
import pytest
from support.decode_run import tiny_config
from support.mlp_reference import assert_close, route_truth, routed_mlp_truth

from graphsafe_gg.decode.reference import (
    _step_in_slot,
    compare,
    moe_reference,
    tolerance,
)
from graphsafe_gg.decode.stack import History, build_inputs, build_layer

CONFIG = tiny_config(num_layers=1, num_steps=2)


def right_case(config=CONFIG):
    """Layers, inputs and a history that NumPy filled in float64."""
    rng = np.random.default_rng(0)
    layers = [build_layer(config, i) for i in range(config.num_layers)]
    rows = (config.num_steps, config.num_layers, config.num_tokens)
    normed = rng.normal(size=(*rows, 32)).astype(np.float32)
    logits = rng.normal(size=(*rows, 6)).astype(np.float32)
    out = np.empty_like(normed)
    for step, layer_idx in np.ndindex(*rows[:2]):
        weights, choices = route_truth(logits[step, layer_idx], 2)
        layer = layers[layer_idx]
        out[step, layer_idx] = routed_mlp_truth(
            normed[step, layer_idx], choices, weights, layer.w_gate_up, layer.w_down
        )
    return layers, build_inputs(config), History(normed, logits, out)


def compared(history, num_executed=2):
    layers, inputs, _ = right_case()
    return compare(CONFIG, inputs, layers, history, num_executed)


@pytest.mark.parametrize("activation", ["swiglu", "geglu_tanh"])
def test_moe_reference_matches_numpy(activation):
    layer = build_layer(CONFIG, 0)
    rng = np.random.default_rng(1)
    normed = rng.normal(size=(5, 32)).astype(np.float32)
    share = np.zeros((5, 6), np.float32)
    share[:, [1, 4]] = rng.random((5, 2))
    found = moe_reference(
        jnp.asarray(normed), share, np.array([1, 4], np.int32), layer, activation
    )
    truth = routed_mlp_truth(
        normed,
        np.tile([1, 4], (5, 1)),
        share[:, [1, 4]],
        layer.w_gate_up,
        layer.w_down,
        activation=activation,
    )
    assert_close(found, truth, np.float32, 32, 16, 2)


def test_compare_accepts_right_results():
    layers, inputs, history = right_case()
    steps = []
    comparison = compare(
        CONFIG, inputs, layers, history, 2, on_step=lambda: steps.append(1)
    )
    assert comparison.max_rel_err <= tolerance(CONFIG)
    assert len(steps) == 2


def test_compare_counts_the_weights_of_chosen_experts():
    history = right_case()[2]
    chosen = np.argsort(-history.logits, axis=-1)[..., :2]
    mean = np.mean([len(np.unique(step)) for step in chosen])
    expected = mean * 3 * 32 * 16 * 4
    assert compared(history).weight_bytes_per_step == pytest.approx(expected)


@pytest.mark.parametrize("token", [0, 3])
def test_compare_finds_one_wrong_token(token):
    history = right_case()[2]
    history.moe_out[1, 0, token] = history.moe_out[1, 0, (token + 1) % 5]
    comparison = compared(history)
    assert comparison.max_rel_err > 100 * tolerance(CONFIG)
    assert comparison.worst == (1, 0, token)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_compare_finds_one_value_that_is_not_finite(value):
    history = right_case()[2]
    history.moe_out[0, 0, 2, 7] = value
    comparison = compared(history)
    assert comparison.max_rel_err == np.inf
    assert comparison.worst == (0, 0, 2)


def test_compare_finds_a_dropped_expert():
    history = right_case()[2]
    weights, choices = route_truth(history.logits[0, 0], 2)
    weights[:, 1] = 0
    layer = build_layer(CONFIG, 0)
    history.moe_out[0, 0] = routed_mlp_truth(
        history.normed[0, 0], choices, weights, layer.w_gate_up, layer.w_down
    )
    assert compared(history).max_rel_err > 100 * tolerance(CONFIG)


def test_compare_ignores_slots_that_never_ran():
    history = right_case()[2]
    history.moe_out[1] = np.nan
    assert compared(history, num_executed=1).max_rel_err <= tolerance(CONFIG)


def test_tolerance_separates_rounding_from_errors():
    for dtype in ("f32", "f16", "bf16"):
        assert tolerance(tiny_config(dtype=dtype)) < 0.1


def test_step_in_slot_follows_the_ring(monkeypatch):
    config = tiny_config(num_steps=5)
    limit = 3 * config.history_bytes_of_one_step
    monkeypatch.setattr("graphsafe_gg.decode.stack._HISTORY_LIMIT_BYTES", limit)
    ring, executed = {}, 0
    for executed in range(1, 20):
        step = executed - 1
        ring[step % 3] = step % 5
        found = {slot: _step_in_slot(config, slot, executed) for slot in ring}
        assert found == ring
