# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The Flax modules: the layer they call, their parameters, training, options."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.mlp_reference import assert_close, moe_mlp_truth

pytest.importorskip("flax", reason="flax is not installed: the extra 'test' has it")

from flax import nnx

from graphsafe_gg.flax.linen import MoeMlp as LinenMoeMlp
from graphsafe_gg.flax.nnx import MoeMlp as NnxMoeMlp
from graphsafe_gg.flax.nnx import ScoreBias

HIDDEN, WIDTH, EXPERTS, TOP_K = 16, 8, 6, 2
OPTIONS = {"score": "sigmoid", "scaling_factor": 2.0}


def random_x(seed=0):
    x = np.random.default_rng(seed).standard_normal((3, 5, HIDDEN), np.float32)
    return jnp.asarray(x)


def nnx_layer(**changes):
    call = {"top_k": TOP_K, "rngs": nnx.Rngs(0), **OPTIONS, **changes}
    return NnxMoeMlp(HIDDEN, WIDTH, EXPERTS, **call)


def linen_layer(**changes):
    call = {"top_k": TOP_K, "options": OPTIONS, **changes}
    return LinenMoeMlp(WIDTH, EXPERTS, **call)


def layer_truth(x, params, routing, **options):
    params = {name: np.asarray(value, np.float64) for name, value in params.items()}
    tokens = np.asarray(x, np.float64).reshape(-1, HIDDEN)
    logits = tokens @ params.pop("router") + params.pop("router_bias", 0)
    out = moe_mlp_truth(tokens, logits, routing=routing, **params, **options)
    return out.reshape(x.shape)


def with_biases(params):
    """The parameters with random values in place of biases of zeros."""
    rng = np.random.default_rng(1)
    return {
        name: jnp.asarray(rng.standard_normal(value.shape, np.float32))
        if "b" in name.split("_")[0] or name.endswith("bias")
        else value
        for name, value in params.items()
    }


@pytest.mark.parametrize("activation", ["swiglu", "relu2"])
@pytest.mark.parametrize("use_bias", [False, True])
def test_flax_modules_are_the_layer(activation, use_bias):
    x, changes = random_x(), {"activation": activation, "use_bias": use_bias}
    linen = linen_layer(**changes)
    params = with_biases(linen.init(jax.random.key(0), x)["params"])
    out = jax.jit(linen.apply)({"params": params}, x)
    truth = layer_truth(x, params, {"top_k": TOP_K, **OPTIONS}, activation=activation)
    assert_close(out, truth, np.float32, HIDDEN, WIDTH)
    layer = nnx_layer(**changes)
    assert set(nnx.to_pure_dict(nnx.state(layer, nnx.Param))) == set(params)
    for name, value in params.items():
        setattr(layer, name, nnx.Param(value))
    np.testing.assert_array_equal(nnx.jit(lambda m, x: m(x))(layer, x), out)


def test_flax_modules_draw_experts_by_their_own_fan_in():
    layer = nnx_layer()
    spread = np.std(np.asarray(layer.w_gate_up[...]), axis=(1, 2))
    np.testing.assert_allclose(spread, np.full(EXPERTS, HIDDEN**-0.5), rtol=0.25)
    assert not np.array_equal(layer.w_gate_up[0], layer.w_gate_up[1])


def test_flax_modules_multiply_in_their_dtype():
    x = random_x()
    linen = linen_layer(dtype=jnp.bfloat16)
    variables = linen.init(jax.random.key(0), x)
    assert linen.apply(variables, x).dtype == jnp.bfloat16
    assert jax.tree.leaves(variables)[0].dtype == jnp.float32
    assert nnx_layer(dtype=jnp.float16, param_dtype=jnp.float16)(x).dtype == jnp.float16


def test_flax_modules_score_bias_is_state_without_a_gradient():
    x, bias = random_x(), np.array([9, 9, 0, 0, 0, 0], np.float32)
    linen = linen_layer(has_score_bias=True)
    variables = linen.init(jax.random.key(0), x)
    assert set(variables) == {"params", "routing"}
    moved = {**variables, "routing": {"score_bias": jnp.asarray(bias)}}
    out = linen.apply(moved, x)
    routing = {"top_k": TOP_K, "score_bias": bias, **OPTIONS}
    truth = layer_truth(x, variables["params"], routing)
    assert_close(out, truth, np.float32, HIDDEN, WIDTH)
    layer = nnx_layer(has_score_bias=True)
    assert len(jax.tree.leaves(nnx.state(layer, ScoreBias))) == 1
    layer.score_bias[...] = jnp.asarray(bias)
    for name, value in variables["params"].items():
        setattr(layer, name, nnx.Param(value))
    np.testing.assert_array_equal(layer(x), out)


def test_flax_modules_learn():
    x, target = random_x(), random_x(seed=1)
    linen, layer = linen_layer(), nnx_layer()
    params = linen.init(jax.random.key(0), x)["params"]

    def linen_loss(params):
        return jnp.mean((linen.apply({"params": params}, x) - target) ** 2)

    def nnx_loss(layer):
        return jnp.mean((layer(x) - target) ** 2)

    linen_step = jax.jit(jax.value_and_grad(linen_loss))
    nnx_step = nnx.jit(nnx.value_and_grad(nnx_loss))
    losses = []
    for _ in range(30):
        (linen_value, gradient), (nnx_value, state) = (
            linen_step(params),
            nnx_step(layer),
        )
        params = jax.tree.map(lambda p, g: p - 0.5 * g, params, gradient)
        new = jax.tree.map(lambda p, g: p - 0.5 * g, nnx.state(layer, nnx.Param), state)
        nnx.update(layer, new)
        losses.append((float(linen_value), float(nnx_value)))
    first, last = np.array(losses[0]), np.array(losses[-1])
    assert (last < 0.7 * first).all(), losses


def test_flax_modules_of_linen_are_static_arguments():
    """Options are a mapping, which no hash would have."""
    x, linen = random_x(), linen_layer()
    params = linen.init(jax.random.key(0), x)
    apply = jax.jit(lambda layer, params, x: layer.apply(params, x), static_argnums=0)
    out = apply(linen, params, x)
    np.testing.assert_allclose(out, linen.apply(params, x), 1e-6, 1e-6)
    assert hash(linen_layer()) == hash(linen)


def test_flax_modules_errors_name_the_option():
    with pytest.raises(ValueError, match=r"^moe_mlp: top_k must be from 1 to 6"):
        nnx_layer(top_k=7)(random_x())
    with pytest.raises(TypeError, match=r"^moe_mlp: the call must have options out of"):
        nnx_layer(capacity=3)(random_x())


def test_flax_is_optional(tmp_path):
    """Without flax the package imports, and the adapters say what to install."""
    program = (
        "import sys; sys.modules['flax'] = None\n"
        "import graphsafe_gg\n"
        "try:\n    import graphsafe_gg.flax.nnx\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("graphsafe_gg.flax: flax must be installed. Run pip")
