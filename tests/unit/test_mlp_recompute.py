# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the layers keep for the backward pass, and what they compute again."""

import contextlib
import io
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from graphsafe_gg import copy_group_sizes, moe_mlp
from graphsafe_gg.mlp import PRE_ACTIVATION, grouped_mlp

H, F, G = 24, 10, 4
SIZES = np.array([3, 0, 7, 1], np.int32)


def random_operands():
    rng = np.random.default_rng(0)
    shapes = ((11, H), (G, H, 2 * F), (G, F, H))
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def gradient_program(**options):
    """A gradient, lowered: its text has what runs before XLA merges anything."""
    operands = random_operands()

    def loss(*operands):
        return jnp.sum(grouped_mlp(*operands, SIZES, **options) ** 2)

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(*operands)


@pytest.mark.parametrize(("recompute", "products"), [(False, 6), (True, 7)])
@pytest.mark.parametrize("mode", ["device", "async"])
def test_grouped_mlp_recompute_multiplies_once_more(recompute, products, mode):
    text = gradient_program(recompute=recompute, mode=mode).as_text()
    calls = text.count("custom_call @graphsafe_gg_grouped_gemm_")
    calls += text.count("custom_call @graphsafe_gg_drhs_")
    assert calls == products


def kept_arrays(layer, *operands):
    """Shapes of what the backward pass is given, the arguments left out."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        jax.ad_checkpoint.print_saved_residuals(layer, *operands)
    lines = [line for line in printed.getvalue().splitlines() if "argument" not in line]
    return [re.match(r"\w+\[([\d,]*)\]", line)[1] for line in lines]


def test_grouped_mlp_keeps_the_pre_activation_alone():
    x, *weights = random_operands()
    kept = {
        recompute: kept_arrays(
            lambda *a, r=recompute: grouped_mlp(*a, SIZES, recompute=r), x, *weights
        )
        for recompute in (False, True)
    }
    assert [shape for shape in kept[False] if shape == f"11,{2 * F}"] == [f"11,{2 * F}"]
    assert f"11,{F}" not in kept[False]
    assert not [shape for shape in kept[True] if shape.startswith("11,")]


@pytest.mark.parametrize(("names", "is_kept"), [((PRE_ACTIVATION,), True), ((), False)])
def test_grouped_mlp_policy_around_the_layer_decides(names, is_kept):
    x, *weights = random_operands()
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    layer = jax.checkpoint(lambda *a: grouped_mlp(*a, SIZES), policy=policy)
    assert (f"11,{2 * F}" in kept_arrays(layer, x, *weights)) == is_kept


def test_grouped_mlp_gradient_copies_at_most_once_in_each_direction():
    text = gradient_program(mode="async").compile().as_text()
    calls = re.findall(r'custom_call_target="graphsafe_gg_group_sizes_copy', text)
    assert len(calls) in (1, 2)  # XLA of some versions merges the two


@pytest.mark.parametrize("is_gradient", [False, True])
def test_grouped_mlp_uses_a_ticket_from_outside(is_gradient):
    def loss(x, *weights):
        x, sizes = copy_group_sizes(SIZES, before=x)
        return jnp.sum(grouped_mlp(x, *weights, sizes, mode="async") ** 2)

    step = jax.grad(loss, (0, 1, 2)) if is_gradient else loss
    text = jax.jit(step).lower(*random_operands()).as_text()
    calls = re.findall(r"@graphsafe_gg_grouped_gemm_async.*?fallback = (\d)", text)
    assert calls.count("0") == 2


def test_moe_mlp_backward_keeps_no_copies_of_tokens_and_sorts_once():
    tokens, *weights = random_operands()
    logits = np.random.default_rng(1).normal(size=(11, G)).astype(np.float32)
    operands = (tokens, logits, *weights)
    layer = lambda *a: moe_mlp(*a, top_k=2)  # noqa: E731
    large = [
        s for s in kept_arrays(layer, *operands) if re.search(f",({F}|{2 * F}|{H})$", s)
    ]
    # The experts' results are kept for the gradient of the routing weights.
    assert sorted(large) == [f"22,{2 * F}", f"22,{H}"]
    grad = jax.jit(jax.grad(lambda *a: jnp.sum(layer(*a) ** 2), (0, 1, 2, 3)))
    assert grad.lower(*operands).as_text().count("stablehlo.sort") == 1
