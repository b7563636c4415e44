# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K30: each misuse of a layer has its own error, at trace time, with the argument.

P-093 and P-095 are about the operation: a layer registers nothing and chooses no path.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.layer_case import F, G, H, T, random_layer

import graphsafe_gg as gg

SIZES = np.array([3, 0, 4, 5], np.int32)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"w_down": np.zeros((G, F, H), jnp.bfloat16)}, TypeError, "dtype of x"),
        ({"x": np.zeros((T, H), np.int8)}, TypeError, "x must be .*; got int8"),
        ({"x": np.zeros((T, H, 1), np.float32)}, ValueError, r"x must have shape"),
        (
            {"w_gate_up": np.zeros((G, H + 1, 2 * F), np.float32)},
            ValueError,
            rf"w_gate_up must have shape \({G}, {H}, {2 * F}\)",
        ),
        ({"group_sizes": SIZES[:3]}, ValueError, r"group_sizes must .*\(4,\)"),
        ({"group_sizes": SIZES[:, None]}, ValueError, r"group_sizes must .*\(4,\)"),
        ({"mode": "fast"}, ValueError, "mode must be one of"),
    ],
)
def test_p094_misuse_names_the_argument(change, error, text):
    """P-094: bad pairs of types, ranks, widths and sizes."""
    layer = random_layer()
    call = {"x": layer.tokens, "w_gate_up": layer.w_gate_up, "w_down": layer.w_down}
    call |= {"group_sizes": SIZES, **change}
    with pytest.raises(error, match=rf"^grouped_mlp: .*{text}"):
        jax.eval_shape(lambda: gg.grouped_mlp(**call))


def test_p094_no_groups_at_all(device):
    """P-094: g = 0 is legal where nothing must choose an expert."""
    x, sizes = np.ones((3, H), np.float32), np.zeros(0, np.int32)
    weights = np.zeros((0, H, 2 * F), np.float32), np.zeros((0, F, H), np.float32)
    np.testing.assert_array_equal(gg.grouped_mlp(x, *weights, sizes), np.zeros((3, H)))
    with pytest.raises(ValueError, match=r"moe_mlp: top_k must be from 1 to 0"):
        gg.moe_mlp(x, np.zeros((3, 0), np.float32), *weights, top_k=1)
