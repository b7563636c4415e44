# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_mlp`: values, gradients, zero tail, NaN, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import (
    assert_close,
    grouped_mlp_truth,
    mlp_of_one_expert,
)

from graphsafe_gg import copy_group_sizes
from graphsafe_gg.mlp import grouped_mlp

H, F = 24, 10
jit_grouped_mlp = jax.jit(grouped_mlp, static_argnames=("activation", "mode"))


def random_case(group_sizes, tail=0, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    num_groups = len(group_sizes)

    def normal(*shape, scale=1.0):
        return (rng.normal(size=shape) * scale).astype(dtype)

    return (
        normal(sum(group_sizes) + tail, H),
        normal(num_groups, H, 2 * F, scale=H**-0.5),
        normal(num_groups, F, H, scale=F**-0.5),
        np.asarray(group_sizes, np.int32),
    )


@pytest.mark.parametrize("mode", ["auto", "sync", "async", "device"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_grouped_mlp_basic(mode, dtype):
    operands = random_case([3, 0, 7, 1], tail=2, dtype=dtype)
    out = jit_grouped_mlp(*operands, mode=mode)
    assert out.dtype == dtype
    assert_close(out, grouped_mlp_truth(*operands), dtype, H, F)


@pytest.mark.parametrize(
    "group_sizes", [[0, 0, 0], [9, 0, 0], [0, 0, 9], [1, 1, 1], [12]]
)
def test_grouped_mlp_edges(group_sizes):
    operands = random_case(group_sizes, tail=3)
    out = jit_grouped_mlp(*operands)
    assert_close(out, grouped_mlp_truth(*operands), np.float32, H, F)
    np.testing.assert_array_equal(out[sum(group_sizes) :], np.zeros((3, H)))


def test_grouped_mlp_no_rows():
    assert grouped_mlp(*random_case([0, 0])).shape == (0, H)


def test_grouped_mlp_grad_matches_numeric():
    x, w_gate_up, w_down, group_sizes = random_case([2, 0, 3], tail=1)
    cotangent = np.random.default_rng(1).normal(size=x.shape)

    def loss(*operands):
        out = grouped_mlp(*operands, group_sizes)
        return jnp.sum(out * jnp.asarray(cotangent, jnp.float32))

    grads = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(x, w_gate_up, w_down)
    operands = [np.asarray(a, np.float64) for a in (x, w_gate_up, w_down)]
    rng, step = np.random.default_rng(2), 1e-5
    for operand, grad in zip(operands, grads, strict=True):
        for position in rng.integers(0, operand.shape, (40, operand.ndim)):
            position, value = tuple(position), operand[tuple(position)]
            sides = []
            for moved in (value + step, value - step):
                operand[position] = moved
                truth = grouped_mlp_truth(*operands, group_sizes)
                sides.append(np.sum(truth * cotangent))
            operand[position] = value
            numeric = (sides[0] - sides[1]) / (2 * step)
            assert abs(float(grad[position]) - numeric) < 2e-5


def test_grouped_mlp_tail_influences_nothing():
    """P-008: whatever the tail holds, results and gradients keep their bits."""
    operands = random_case([30, 0, 5, 35, 0, 0, 0, 0], tail=58)

    @jax.jit
    def step(*values):
        def loss(*a):
            return jnp.sum(grouped_mlp(*a, operands[3]) ** 2)

        return jax.value_and_grad(loss, argnums=(0, 1, 2))(*values)

    def value_and_grads(tail_value):
        x = operands[0].copy()
        x[70:] = tail_value
        return step(x, *operands[1:3])

    clean = value_and_grads(0.0)
    np.testing.assert_array_equal(clean[1][0][70:], 0)
    for tail_value in (3e38, np.nan):
        dirty = value_and_grads(tail_value)
        for left, right in zip(
            jax.tree.leaves(clean), jax.tree.leaves(dirty), strict=True
        ):
            np.testing.assert_array_equal(left, right)


def test_grouped_mlp_nan_stays_in_its_group():
    x, w_gate_up, w_down, group_sizes = random_case([4, 4, 4])
    x[5], w_down[2, 0, 0] = np.nan, np.nan

    def loss(*operands):
        return jnp.sum(grouped_mlp(*operands, group_sizes))

    out = jit_grouped_mlp(x, w_gate_up, w_down, group_sizes)
    truth = mlp_of_one_expert(x[:4], w_gate_up[0], w_down[0])
    assert_close(out[:4], truth, np.float32, H, F)
    grads = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(x, w_gate_up, w_down)
    assert np.isfinite(grads[0][:4]).all()
    assert np.isfinite(grads[1][0]).all()
    assert np.isfinite(grads[2][0]).all()


@pytest.mark.parametrize("mode", ["async", "device"])
def test_grouped_mlp_takes_copied_sizes(mode):
    x, *weights, group_sizes = random_case([3, 0, 7, 1], tail=2)

    def step(x, *operands):
        x, sizes = copy_group_sizes(operands[-1], before=x)
        return grouped_mlp(x, *operands[:-1], sizes, mode=mode)

    out = jax.jit(step)(x, *weights, group_sizes)
    truth = grouped_mlp_truth(x, *weights, group_sizes)
    assert_close(out, truth, np.float32, H, F)


def test_grouped_mlp_async_copies_once():
    operands = random_case([3, 0, 7, 1])
    text = jax.jit(lambda *a: grouped_mlp(*a, mode="async")).lower(*operands).as_text()
    assert text.count("custom_call @graphsafe_gg_group_sizes_copy") == 1


def test_grouped_mlp_preferred_element_type():
    operands = random_case([3, 0, 7, 1], dtype=jnp.bfloat16)
    out = grouped_mlp(*operands, preferred_element_type=jnp.float32)
    assert out.dtype == jnp.float32
    assert_close(out, grouped_mlp_truth(*operands), jnp.bfloat16, H, F)


def test_grouped_mlp_bits_repeat():
    operands = random_case([3, 0, 7, 1], dtype=jnp.bfloat16)
    step = jit_grouped_mlp
    first, second = (np.asarray(step(*operands)).tobytes() for _ in range(2))
    assert first == second


def test_grouped_mlp_one_program_serves_all_sizes():
    operands = random_case([3, 0, 7, 1])
    for group_sizes in ([3, 0, 7, 1], [0, 11, 0, 0], [2, 3, 3, 3]):
        moved = (*operands[:3], np.asarray(group_sizes, np.int32))
        assert_close(
            jit_grouped_mlp(*moved), grouped_mlp_truth(*moved), np.float32, H, F
        )


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"x": np.zeros((3,))}, ValueError, r"x must have shape \(m, h\)"),
        ({"x": np.zeros((3, 7))}, ValueError, r"w_gate_up must have shape \(2, 7, 20"),
        ({"w_gate_up": np.zeros((2, H, 21))}, ValueError, "an even last axis"),
        ({"w_gate_up": np.zeros((H, 20))}, ValueError, "w_gate_up must have shape"),
        (
            {"w_down": np.zeros((2, 11, H))},
            ValueError,
            r"w_down must have shape \(2",
        ),
        ({"w_down": np.zeros((3, F, H))}, ValueError, r"w_down must have shape \(2"),
        ({"group_sizes": np.zeros(3, int)}, ValueError, r"group_sizes .*shape \(2,\)"),
        ({"group_sizes": np.zeros(2)}, TypeError, "group_sizes must have an integer"),
        ({"activation": "swish"}, ValueError, "activation must be one of 'swiglu'"),
        ({"activation": ["silu"]}, ValueError, "activation must be one of 'swiglu'"),
    ],
)
def test_grouped_mlp_errors(change, error, text):
    operands = dict(
        zip(
            ("x", "w_gate_up", "w_down", "group_sizes"),
            random_case([1, 2]),
            strict=True,
        )
    )
    for key, value in change.items():
        is_sizes = key in ("group_sizes", "activation")
        operands[key] = value if is_sizes else value.astype(np.float32)
    with pytest.raises(error, match=rf"^grouped_mlp: .*{text}"):
        jax.eval_shape(lambda: grouped_mlp(**operands))


def test_grouped_mlp_errors_dtype():
    operands = random_case([1, 2])
    with pytest.raises(TypeError, match="w_down must have the dtype of x, float32"):
        grouped_mlp(*operands[:2], operands[2].astype(jnp.bfloat16), operands[3])
    with pytest.raises(TypeError, match="x must be bfloat16, float16 or float32"):
        grouped_mlp(operands[0].astype(np.int32), *operands[1:])


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"w_gate_up": (np.zeros((2, H, F)), np.zeros((2, H, F + 1)))},
            ValueError,
            r"w_gate_up\[1\] must have shape \(2, 24, 10\)",
        ),
        (
            {"w_gate_up": (np.zeros((2, H, F)),)},
            ValueError,
            "w_gate_up .* a pair of arrays; got 1",
        ),
        (
            {"w_gate_up": (np.zeros((2, H, F)),) * 2, "activation": "relu"},
            ValueError,
            "w_gate_up must be one array for activation 'relu', which has no gate",
        ),
        (
            {"activation": "silu"},
            ValueError,
            r"w_down must have shape \(2, 20, 24\) .* for activation 'silu'",
        ),
        (
            {"b_gate_up": np.zeros((2, F))},
            ValueError,
            r"b_gate_up must have shape \(2, 20\) to match w_gate_up",
        ),
        (
            {"b_gate_up": (np.zeros((2, F)),) * 2},
            ValueError,
            "b_gate_up must come as w_gate_up does",
        ),
        ({"b_down": np.zeros(H)}, ValueError, r"b_down must have shape \(2, 24\)"),
        (
            {"b_down": np.zeros((2, H), np.int32)},
            TypeError,
            "b_down must have the dtype of x, float32",
        ),
    ],
)
def test_grouped_mlp_errors_of_weights_and_biases(options, error, text):
    names = ("x", "w_gate_up", "w_down", "group_sizes")
    call = {**dict(zip(names, random_case([1, 2]), strict=True))}
    to_float32 = lambda a: a.astype(np.float32) if a.dtype == np.float64 else a  # noqa: E731
    call |= {
        name: value if name == "activation" else jax.tree.map(to_float32, value)
        for name, value in options.items()
    }
    with pytest.raises(error, match=rf"^grouped_mlp: {text}"):
        jax.eval_shape(lambda: grouped_mlp(**call))


def test_grouped_mlp_errors_mode():
    operands = random_case([1, 2])
    with pytest.raises(ValueError, match=r"^grouped_mlp: mode must"):
        grouped_mlp(*operands, mode="fastest")
