# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Every pair of options of `moe_mlp`: value and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close, moe_mlp_truth, relative_tolerance
from support.numeric_gradient import assert_gradients_close
from support.operands import MODES
from support.pairwise import all_pairs, case_id

import graphsafe_gg as gg
from graphsafe_gg.mlp.routing import SCORES

T, H, F, G = 9, 12, 6, 8
CASES = all_pairs(
    score=SCORES,
    has_score_bias=(False, True),
    groups=((1, None), (4, 2), (2, 2)),
    renormalize=(True, False),
    scaling_factor=(1.0, 2.5),
    top_k=(1, 2, 4),
    mode=MODES,
    activation=("swiglu", "clamped_swiglu", "relu2"),
    bias=(False, True),
    dtype=(jnp.float32, jnp.bfloat16, jnp.float16),
    recompute=(False, True),
)


def operands_of(case):
    """tokens, logits, w_gate_up, w_down, b_gate_up, b_down."""
    rng = np.random.default_rng(3)

    def normal(*shape, scale=1.0):
        return (scale * rng.normal(size=shape)).astype(case["dtype"])

    width = F if case["activation"] == "relu2" else 2 * F
    biases = (normal(G, width), normal(G, H)) if case["bias"] else (None, None)
    return (
        normal(T, H),
        rng.normal(size=(T, G)).astype(np.float32),
        normal(G, H, width, scale=H**-0.5),
        normal(G, F, H, scale=F**-0.5),
        *biases,
    )


def routing_of(case):
    names = ("top_k", "score", "renormalize", "scaling_factor")
    num_expert_groups, top_k_groups = case["groups"]
    score_bias = np.linspace(0.3, -0.3, G, dtype=np.float32)
    return {
        **{name: case[name] for name in names},
        "score_bias": score_bias if case["has_score_bias"] else None,
        "num_expert_groups": num_expert_groups,
        "top_k_groups": top_k_groups,
    }


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_moe_options(case):
    operands, routing = operands_of(case), routing_of(case)
    cotangent = np.random.default_rng(1).normal(size=(T, H))

    def layer(tokens, logits, w_gate_up, w_down, b_gate_up, b_down):
        options = {name: case[name] for name in ("activation", "recompute", "mode")}
        options |= {"b_gate_up": b_gate_up, "b_down": b_down, **routing}
        return gg.moe_mlp(tokens, logits, w_gate_up, w_down, **options)

    @jax.jit
    def value_and_gradients(*operands):
        out, pull = jax.vjp(layer, *operands)
        return out, pull(jnp.asarray(cotangent, out.dtype))

    def truth(tokens, logits, w_gate_up, w_down, b_gate_up=None, b_down=None):
        return moe_mlp_truth(
            tokens,
            logits,
            w_gate_up,
            w_down,
            routing=routing,
            activation=case["activation"],
            b_gate_up=b_gate_up,
            b_down=b_down,
        )

    out, gradients = value_and_gradients(*operands)
    assert out.dtype == case["dtype"]
    assert_close(out, truth(*operands), case["dtype"], H, F, case["top_k"])
    given = [operand for operand in operands if operand is not None]
    found = jax.tree.leaves(gradients)
    for operand, gradient in zip(given, found, strict=True):
        assert gradient.dtype == operand.dtype
        assert np.isfinite(np.asarray(gradient, np.float32)).all()
    if case["dtype"] == jnp.float32:
        tolerance = relative_tolerance(np.float32, H, F, T * case["top_k"])
        assert_gradients_close(truth, given, found, cotangent, tolerance)
