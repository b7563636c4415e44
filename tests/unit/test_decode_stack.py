# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The stack: what a step computes, holds and keeps in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.decode_run import tiny_config
from support.mlp_reference import assert_close, route_truth, routed_mlp_truth

from graphsafe_gg.decode.stack import (
    build_inputs,
    build_layer,
    compile_step,
    initial_state,
)
from graphsafe_gg.sizes_file import RecordedSizes


def run_steps(config, num_steps, mode="auto"):
    layers = [build_layer(config, i) for i in range(config.num_layers)]
    inputs, state = build_inputs(config), initial_state(config)
    step = compile_step(config, mode, state, inputs, layers)
    pointers = []
    for _ in range(num_steps):
        state = step(state, inputs, layers)
        pointers.append(
            [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]
        )
    return layers, inputs, state, pointers


def recorded_sizes(num_steps=3, num_layers=2, seed=0):
    rng = np.random.default_rng(seed)
    sizes = np.zeros((num_steps, num_layers, 6), np.int32)
    for step, layer in np.ndindex(num_steps, num_layers):
        sizes[step, layer] = rng.multinomial(2 * rng.integers(1, 6), np.full(6, 1 / 6))
    return RecordedSizes(sizes, 2)


def test_stack_layers_differ_and_repeat():
    config = tiny_config()
    first, again, second = (build_layer(config, i) for i in (0, 0, 1))
    for name in first._fields:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert not np.array_equal(getattr(first, name), getattr(second, name))


def test_stack_activations_stay_near_one():
    config = tiny_config(num_layers=6, num_tokens=64)
    history = run_steps(config, 1)[2].history
    size = float(jnp.sqrt(jnp.mean(history.moe_out[0] ** 2)))
    assert 0.1 < size < 3


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_stack_step_is_residual_norm_and_moe(dtype):
    config = tiny_config(dtype=dtype, num_steps=2)
    layers, inputs, state, _ = run_steps(config, 2)
    float_type = inputs.tokens.dtype
    tokens = np.asarray(inputs.tokens[1], np.float64)
    for i, layer in enumerate(layers):
        normed = tokens / np.sqrt(np.mean(tokens**2, axis=1, keepdims=True) + 1e-6)
        held = np.asarray(state.history.normed[1, i], np.float64)
        assert_close(held, normed, float_type)
        logits = np.asarray(state.history.logits[1, i])
        assert_close(
            logits, held @ np.asarray(layer.router, np.float64), np.float32, 32
        )
        weights, choices = route_truth(logits, 2)
        truth = routed_mlp_truth(held, choices, weights, layer.w_gate_up, layer.w_down)
        out = state.history.moe_out[1, i]
        assert_close(out, truth, float_type, 32, 16, 2)
        tokens = np.asarray((tokens + np.asarray(out, np.float64)), float_type)
        tokens = tokens.astype(np.float64)
    assert_close(state.tokens, tokens, float_type)


def test_stack_group_sizes_change_at_every_step():
    history = run_steps(tiny_config(num_tokens=16), 3)[2].history
    chosen = np.argsort(-np.asarray(history.logits), axis=-1)[..., :2]
    counts = [np.bincount(step[0].ravel(), minlength=6).tolist() for step in chosen]
    assert counts[0] != counts[1] != counts[2]


def test_stack_state_stays_in_place():
    pointers = run_steps(tiny_config(), 4)[3]
    assert all(step == pointers[0] for step in pointers)


def test_stack_history_holds_the_last_steps(monkeypatch):
    config = tiny_config(num_steps=5)
    limit = 2 * config.history_bytes_of_one_step
    monkeypatch.setattr("graphsafe_gg.decode.stack._HISTORY_LIMIT_BYTES", limit)
    assert config.num_held_steps == 2
    inputs, state = run_steps(config, 8)[1:3]
    # Steps 0..7 take inputs 0 1 2 3 4 0 1 2; the last two lie in slots 0 and 1.
    for slot, step in ((0, 1), (1, 2)):
        tokens = np.asarray(inputs.tokens[step], np.float64)
        normed = tokens / np.sqrt(np.mean(tokens**2, axis=1, keepdims=True) + 1e-6)
        assert_close(state.history.normed[slot, 0], normed, np.float32)


def test_stack_replays_recorded_sizes():
    recorded = recorded_sizes()
    config = tiny_config(recorded=recorded, num_tokens=recorded.num_tokens)
    layers, inputs, state, _ = run_steps(config, 3)
    assert state.history.logits is None
    for step, layer_idx in np.ndindex(3, 2):
        choices = np.asarray(inputs.expert_idx[step, layer_idx])
        counts = np.bincount(choices[choices >= 0], minlength=6)
        np.testing.assert_array_equal(counts, recorded.group_sizes[step, layer_idx])
        truth = routed_mlp_truth(
            np.asarray(state.history.normed[step, layer_idx]),
            choices,
            np.asarray(inputs.weights),
            layers[layer_idx].w_gate_up,
            layers[layer_idx].w_down,
        )
        assert_close(
            state.history.moe_out[step, layer_idx], truth, np.float32, 32, 16, 2
        )
