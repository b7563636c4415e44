# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`moe_mlp` and `routed_mlp`: values, gradients, dropped tokens, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close, route_truth, routed_mlp_truth

from graphsafe_gg.mlp import moe_mlp, routed_mlp

H, F, G = 16, 6, 8
jit_moe_mlp = jax.jit(moe_mlp, static_argnames=("top_k", "mode"))


def random_case(num_tokens=13, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape, scale=1.0):
        return (rng.normal(size=shape) * scale).astype(dtype)

    return (
        normal(num_tokens, H),
        rng.normal(size=(num_tokens, G)).astype(np.float32),
        normal(G, H, 2 * F, scale=H**-0.5),
        normal(G, F, H, scale=F**-0.5),
    )


def moe_mlp_truth(tokens, router_logits, w_gate_up, w_down, top_k):
    weights, expert_idx = route_truth(router_logits, top_k)
    return routed_mlp_truth(tokens, expert_idx, weights, w_gate_up, w_down)


@pytest.mark.parametrize("mode", ["auto", "sync", "async", "device"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_moe_mlp_basic(mode, dtype):
    operands = random_case(dtype=dtype)
    out = jit_moe_mlp(*operands, top_k=2, mode=mode)
    assert out.dtype == dtype
    assert_close(out, moe_mlp_truth(*operands, 2), dtype, H, F, 2)


@pytest.mark.parametrize("top_k", [1, G])
def test_moe_mlp_edges_top_k(top_k):
    operands = random_case()
    out = jit_moe_mlp(*operands, top_k=top_k)
    assert_close(out, moe_mlp_truth(*operands, top_k), np.float32, H, F, top_k)


def test_moe_mlp_edges_all_tokens_in_one_expert():
    operands = list(random_case())
    operands[1] = np.full_like(operands[1], -5.0)
    operands[1][:, 3] = 5.0
    out = jit_moe_mlp(*operands, top_k=1)
    assert_close(out, moe_mlp_truth(*operands, 1), np.float32, H, F)


@pytest.mark.parametrize(
    "options", [{"interleaved": True}, {"num_expert_groups": 4, "top_k_groups": 2}]
)
def test_moe_mlp_edges_no_tokens_with_options(options):
    operands = random_case(num_tokens=0)
    assert moe_mlp(*operands, top_k=2, **options).shape == (0, H)


def test_moe_mlp_edges_no_tokens():
    assert jit_moe_mlp(*random_case(num_tokens=0), top_k=2).shape == (0, H)


@pytest.mark.parametrize("mode", ["auto", "async"])
def test_moe_mlp_grad_matches_numeric(mode):
    operands = random_case(num_tokens=5)
    cotangent = np.random.default_rng(1).normal(size=(5, H))

    def loss(*values):
        out = moe_mlp(*values, top_k=3, mode=mode)
        return jnp.sum(out * jnp.asarray(cotangent, jnp.float32))

    grads = jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*operands)
    wide = [np.asarray(a, np.float64) for a in operands]
    rng, step = np.random.default_rng(2), 1e-6
    for operand, grad in zip(wide, grads, strict=True):
        for position in rng.integers(0, operand.shape, (25, operand.ndim)):
            position, value = tuple(position), operand[tuple(position)]
            sides = []
            for moved in (value + step, value - step):
                operand[position] = moved
                sides.append(np.sum(moe_mlp_truth(*wide, 3) * cotangent))
            operand[position] = value
            numeric = (sides[0] - sides[1]) / (2 * step)
            assert abs(float(grad[position]) - numeric) < 2e-5


def test_moe_mlp_grad_is_zero_for_experts_without_tokens():
    operands = list(random_case())
    operands[1][:, [2, 5]] = -100.0
    grads = jax.jit(jax.grad(lambda *a: jnp.sum(moe_mlp(*a, top_k=2)), argnums=(2, 3)))(
        *operands
    )
    for grad in grads:
        np.testing.assert_array_equal(np.asarray(grad)[[2, 5]], 0)


def test_moe_mlp_async_copies_once():
    step = jax.jit(lambda *a: moe_mlp(*a, top_k=2, mode="async"))
    text = step.lower(*random_case()).as_text()
    assert text.count("custom_call @graphsafe_gg_group_sizes_copy") == 1


def test_moe_mlp_bits_repeat():
    operands = random_case(dtype=jnp.bfloat16)
    step = jax.jit(
        jax.value_and_grad(
            lambda *a: jnp.sum(moe_mlp(*a, top_k=2).astype(jnp.float32)),
            argnums=(0, 1, 2, 3),
        )
    )
    first, second = (
        [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(step(*operands))]
        for _ in range(2)
    )
    assert first == second


def test_moe_mlp_under_checkpoint_and_scan():
    operands = random_case(num_tokens=4)
    layer = jax.checkpoint(lambda x: moe_mlp(x, *operands[1:], top_k=2))

    def loss(x):
        return jnp.sum(jax.lax.scan(lambda c, _: (c + layer(c), None), x, None, 2)[0])

    def unrolled(x):
        for _ in range(2):
            x = x + moe_mlp(x, *operands[1:], top_k=2)
        return jnp.sum(x)

    grads = [jax.jit(jax.grad(f))(operands[0]) for f in (loss, unrolled)]
    assert_close(*grads, np.float32, H, F)


def random_routing(num_tokens=13, top_k=3, seed=5):
    rng = np.random.default_rng(seed)
    expert_idx = rng.integers(-1, G, (num_tokens, top_k)).astype(np.int32)
    return expert_idx, rng.random((num_tokens, top_k)).astype(np.float32)


def test_routed_mlp_basic():
    tokens, _, *experts = random_case()
    expert_idx, weights = random_routing()
    out = jax.jit(routed_mlp)(tokens, expert_idx, weights, *experts)
    truth = routed_mlp_truth(tokens, expert_idx, weights, *experts)
    assert_close(out, truth, np.float32, H, F, 3)


def test_routed_mlp_one_expert_in_every_choice():
    """P-005: all rows in one group, the same expert several times per token."""
    tokens, _, *experts = random_case()
    expert_idx, weights = np.full((13, 4), 6, np.int32), random_routing(top_k=4)[1]
    out = jax.jit(routed_mlp)(tokens, expert_idx, weights, *experts)
    truth = routed_mlp_truth(tokens, expert_idx, weights, *experts)
    assert_close(out, truth, np.float32, H, F, 4)


def test_routed_mlp_nan_of_a_dropped_token_reaches_nothing():
    tokens, _, *experts = random_case()
    expert_idx, weights = random_routing()
    expert_idx[4] = -1

    value_and_grads = jax.jit(
        jax.value_and_grad(
            lambda *a: jnp.sum(routed_mlp(a[0], expert_idx, *a[1:]) ** 2),
            argnums=(0, 1, 2, 3),
        )
    )
    clean = value_and_grads(tokens, weights, *experts)
    tokens[4], weights[4] = np.nan, np.nan
    dirty = value_and_grads(tokens, weights, *experts)
    for left, right in zip(jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(dirty[1][0][4], 0)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"tokens": np.zeros(H)}, ValueError, r"tokens must have shape \(t, h\)"),
        ({"router_logits": np.zeros((13, 7))}, ValueError, r"shape \(13, 8\) to match"),
        ({"router_logits": np.zeros(13)}, ValueError, "router_logits must have shape"),
        ({"w_gate_up": np.zeros((G, H, 11))}, ValueError, "an even last axis"),
        ({"w_down": np.zeros((G, F, 9))}, ValueError, r"w_down must have shape \(8, 6"),
        ({"top_k": 9}, ValueError, "top_k must be from 1 to 8.*got 9"),
        ({"top_k": "2"}, TypeError, "top_k must be a Python int"),
        ({"activation": "tanh"}, ValueError, "activation must be one of"),
        ({"capacity": 2}, TypeError, "the call must have options out of b_gate_up"),
        ({"b_down": np.zeros((G, 9))}, ValueError, r"b_down must have shape \(8, 16"),
    ],
)
def test_moe_mlp_errors(change, error, text):
    names = ("tokens", "router_logits", "w_gate_up", "w_down")
    operands = {**dict(zip(names, random_case(), strict=True)), "top_k": 2}
    for key, value in change.items():
        is_array = isinstance(value, np.ndarray)
        operands[key] = value.astype(np.float32) if is_array else value
    with pytest.raises(error, match=rf"^moe_mlp: .*{text}"):
        jax.eval_shape(lambda: moe_mlp(**operands))


def test_moe_mlp_errors_mode():
    with pytest.raises(ValueError, match=r"^moe_mlp: mode must"):
        moe_mlp(*random_case(), top_k=2, mode="fastest")


def test_routed_mlp_errors():
    tokens, _, *experts = random_case()
    expert_idx, weights = random_routing()
    with pytest.raises(
        TypeError, match=r"^routed_mlp: expert_idx must have an integer"
    ):
        routed_mlp(tokens, weights, weights, *experts)
    with pytest.raises(ValueError, match=r"^routed_mlp: weights must have shape \(13"):
        routed_mlp(tokens, expert_idx, weights[:, :1], *experts)
    with pytest.raises(ValueError, match=r"^routed_mlp: expert_idx must have shape"):
        routed_mlp(tokens, expert_idx[1:], weights[1:], *experts)


def test_moe_mlp_nan_logits_reach_their_own_token_alone():
    tokens, logits, *experts = random_case()
    clean = np.asarray(jit_moe_mlp(tokens, logits, *experts, top_k=2))
    logits[4, 1] = np.nan
    dirty = np.asarray(jit_moe_mlp(tokens, logits, *experts, top_k=2))
    others = np.arange(len(tokens)) != 4
    np.testing.assert_array_equal(dirty[others], clean[others])
    assert np.isnan(dirty[4]).all()
