# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A small MoE layer for the acceptance cases: random operands and their shapes."""

from typing import NamedTuple

import jax
import numpy as np

T, H, F, G, TOP_K = 12, 16, 8, 4, 2


class Layer(NamedTuple):
    """What `moe_mlp` takes: (t, h), (t, g), (g, h, 2 * f) and (g, f, h)."""

    tokens: np.ndarray
    router_logits: np.ndarray
    w_gate_up: np.ndarray
    w_down: np.ndarray


def random_layer(num_tokens=T, dtype=np.float32, seed=0) -> Layer:
    rng = np.random.default_rng(seed)

    def normal(*shape, scale=1.0):
        return (scale * rng.standard_normal(shape, np.float32)).astype(dtype)

    return Layer(
        normal(num_tokens, H),
        normal(num_tokens, G),
        normal(G, H, 2 * F, scale=H**-0.5),
        normal(G, F, H, scale=F**-0.5),
    )


def assert_trees_close(actual, expected, tolerance=1e-5) -> None:
    """Leaf by leaf, relative to the largest value of each."""
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    for left, right in pairs:
        scale = max(float(np.abs(right).max(initial=0)), 1e-30)
        np.testing.assert_allclose(left, right, rtol=0, atol=tolerance * scale)
