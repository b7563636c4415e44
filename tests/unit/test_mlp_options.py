# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Every pair of options of the two grouped MLPs: value, gradient, zero tail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import (
    assert_close,
    grouped_mlp_truth,
    norm_truth,
    relative_tolerance,
)
from support.numeric_gradient import assert_gradients_close
from support.operands import MODES
from support.pairwise import all_pairs, case_id

import graphsafe_gg as gg
from graphsafe_gg.mlp.activation import ACTIVATIONS, is_gated

H, F, TAIL = 12, 6, 2
SIZES = np.array([3, 0, 4, 1], np.int32)
CASES = all_pairs(
    activation=ACTIVATIONS,
    norm=("none", "layernorm", "layernorm_beta", "rmsnorm"),
    mode=MODES,
    weights=("halves", "interleaved", "apart"),
    bias=("none", "gate_up", "down", "both"),
    dtype=(jnp.float32, jnp.bfloat16, jnp.float16),
    recompute=(False, True),
    is_copied=(False, True),
)


def weights_of(case, normal):
    """(w_gate_up, w_down, b_gate_up, b_down) as the case has them."""
    num_groups, is_apart = len(SIZES), case["weights"] == "apart"
    is_pair = is_apart and is_gated(case["activation"])
    width = 2 * F if is_gated(case["activation"]) and not is_pair else F
    count = 2 if is_pair else 1
    w = [normal(num_groups, H, width, scale=H**-0.5) for _ in range(count)]
    b = [normal(num_groups, width) for _ in range(count)]
    has = {"none": (), "both": ("gate_up", "down")}.get(case["bias"], (case["bias"],))
    w_down, b_down = (
        normal(num_groups, F, H, scale=F**-0.5),
        normal(num_groups, H),
    )
    return (
        tuple(w) if is_pair else w[0],
        w_down,
        (tuple(b) if is_pair else b[0]) if "gate_up" in has else None,
        b_down if "down" in has else None,
    )


def operands_of(case):
    rng = np.random.default_rng(3)

    def normal(*shape, scale=1.0):
        return (scale * rng.normal(size=shape)).astype(case["dtype"])

    x = normal(int(SIZES.sum()) + TAIL, H)
    norm_weights = {"none": 0, "layernorm_beta": 2}.get(case["norm"], 1)
    return x, *weights_of(case, normal), tuple(normal(H) for _ in range(norm_weights))


def layer(case, x, w_gate_up, w_down, b_gate_up, b_down, norm_weights):
    sizes = jnp.asarray(SIZES)
    if case["is_copied"]:
        x, sizes = gg.copy_group_sizes(sizes, before=x)
    options = {
        "b_gate_up": b_gate_up,
        "b_down": b_down,
        "interleaved": case["weights"] == "interleaved",
        **{name: case[name] for name in ("activation", "recompute", "mode")},
    }
    if not norm_weights:
        return gg.grouped_mlp(x, w_gate_up, w_down, sizes, **options)
    gamma, beta = (*norm_weights, None)[:2]
    norm = case["norm"].removesuffix("_beta")
    return gg.grouped_layernorm_mlp(
        x, gamma, w_gate_up, w_down, sizes, beta=beta, norm=norm, **options
    )


def truth(case, x, w_gate_up, w_down, b_gate_up, b_down, norm_weights):
    if norm_weights:
        x = norm_truth(x, *norm_weights, norm=case["norm"].removesuffix("_beta"))
    return grouped_mlp_truth(
        x,
        w_gate_up,
        w_down,
        SIZES,
        activation=case["activation"],
        interleaved=case["weights"] == "interleaved",
        b_gate_up=b_gate_up,
        b_down=b_down,
    )


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_mlp_options(case):
    operands = operands_of(case)
    operands[0][len(operands[0]) - TAIL :] = np.nan
    cotangent = np.random.default_rng(1).normal(size=operands[0].shape)

    @jax.jit
    def value_and_gradients(*operands):
        out, pull = jax.vjp(lambda *a: layer(case, *a), *operands)
        return out, pull(jnp.asarray(cotangent, out.dtype))

    out, gradients = value_and_gradients(*operands)
    dtype, widths = case["dtype"], (H, F)
    assert out.dtype == dtype
    finite = (np.nan_to_num(np.asarray(operands[0], np.float32)), *operands[1:])
    expected = truth(case, *finite)
    assert_close(out, expected, dtype, *widths)
    np.testing.assert_array_equal(np.asarray(out[-TAIL:], np.float32), 0)
    np.testing.assert_array_equal(np.asarray(gradients[0][-TAIL:], np.float32), 0)
    leaves, structure = jax.tree.flatten(finite)
    found = jax.tree.leaves(gradients)
    for operand, gradient in zip(jax.tree.leaves(operands), found, strict=True):
        assert gradient.dtype == operand.dtype
        assert np.isfinite(np.asarray(gradient, np.float32)).all()
    if dtype == jnp.float32:
        assert_gradients_close(
            lambda *leaves: truth(case, *jax.tree.unflatten(structure, leaves)),
            leaves,
            found,
            cotangent,
            relative_tolerance(dtype, H, F, len(operands[0])),
        )
