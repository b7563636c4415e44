# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The activations: values, one rounding, zero at zero."""

import jax.numpy as jnp
import numpy as np
import pytest
from support import mlp_reference

from graphsafe_gg.mlp.activation import ACTIVATIONS, activate, is_gated

WIDTH = 10


def random_parts(activation, dtype, scale=3.0):
    rng = np.random.default_rng(0)
    shape = (2 if is_gated(activation) else 1, 64, WIDTH)
    return tuple((scale * rng.normal(size=shape)).astype(dtype))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_activate_rounds_once(activation, dtype):
    parts = random_parts(activation, dtype)
    truth = mlp_reference.activate(activation, *(p.astype(np.float64) for p in parts))
    out = np.asarray(activate(tuple(map(jnp.asarray, parts)), activation, False))
    assert out.dtype == dtype
    # Half a unit in the last of 8 bits and a little for the float32 in between; or
    # float32 itself, whose cancellation near zero is relative to the operands.
    unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(truth), 1e-30))) - 7)
    limit = 0.51 * unit if dtype == jnp.bfloat16 else 2e-6 * np.maximum(1, abs(truth))
    assert np.all(np.abs(out.astype(np.float64) - truth) <= limit + 2e-6)


def test_activate_clamps_at_the_limits_of_gpt_oss():
    gate = jnp.array([[9.0, 7.0, -9.0, 1.0]])
    up = jnp.array([[1.0, 1.0, 0.0, -9.0]])
    out = np.asarray(activate((gate, up), "clamped_swiglu", False))[0]
    assert out[0] == out[1]
    assert out[2] != 0  # the gate has no lower limit
    np.testing.assert_allclose(out[3], -6 / (1 + np.exp(-1.702)), rtol=1e-6)


@pytest.mark.parametrize("activation", [a for a in ACTIVATIONS if is_gated(a)])
def test_activate_reads_gate_and_up_in_each_order(activation):
    gate, up = map(jnp.asarray, random_parts(activation, np.float32))
    halves = jnp.concatenate([gate, up], axis=1)
    turns = jnp.stack([gate, up], axis=-1).reshape(64, 2 * WIDTH)
    apart = activate((gate, up), activation, False)
    np.testing.assert_array_equal(activate((halves,), activation, False), apart)
    np.testing.assert_array_equal(activate((turns,), activation, True), apart)
