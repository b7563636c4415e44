# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K26: one program for all sizes, and the right one for each shape."""

import jax
import numpy as np
import pytest
from support.layer_case import F, G, H, random_layer
from support.mlp_reference import assert_close, grouped_mlp_truth
from support.operands import MODES

import graphsafe_gg as gg


@pytest.mark.parametrize("mode", MODES)
def test_p081_sizes_trace_nothing(device, mode):
    """P-081: 200 vectors of sizes, one trace, right results."""
    traces = []

    @jax.jit
    def layer(x, w_gate_up, w_down, sizes):
        traces.append(sizes.shape)
        return gg.grouped_mlp(x, w_gate_up, w_down, sizes, mode=mode)

    x, _, *weights = random_layer(num_tokens=64)
    rng = np.random.default_rng(0)
    for i in range(200):
        sizes = rng.multinomial(int(rng.integers(0, 65)), np.full(G, 1 / G))
        out = layer(x, *weights, sizes.astype(np.int32))
        if i % 20 == 0:
            truth = grouped_mlp_truth(x, *weights, sizes)
            assert_close(out, truth, np.float32, H, F)
    assert len(traces) == 1


def test_p082_every_shape_has_its_own_program(device):
    """P-082: m in turn, then h and f swapped, then another type."""
    layer = jax.jit(gg.grouped_mlp)
    rng = np.random.default_rng(0)
    shapes = [(m, 16, 8) for m in (64, 96, 128, 1024, 64)] + [(64, 8, 16)]
    for dtype in (np.float32, np.float16):
        for m, h, f in shapes:
            arrays = (
                rng.standard_normal(shape, np.float32).astype(dtype)
                for shape in ((m, h), (G, h, 2 * f), (G, f, h))
            )
            operands = (*arrays, np.array([m // 2, 0, m // 4, 3], np.int32))
            truth = grouped_mlp_truth(*operands)
            assert_close(layer(*operands), truth, dtype, h, f)
