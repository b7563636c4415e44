# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_gemm(layer=)`: one layer of stacked weights, never sliced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.messages import raises_text
from support.operands import DTYPES, MODES

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

SIZES = np.array([3, 0, 9, 1], np.int32)
M, K, N, LAYERS = 15, 24, 24, 3
FORMS = {
    "static": int,
    "traced": lambda layer: jnp.asarray(layer, jnp.int32),
    "of one": lambda layer: jnp.asarray([layer], jnp.uint8),
}


def stacked(dtype=jnp.float32, transpose_rhs=False, k=K, n=N):
    rng = np.random.default_rng(2)
    inner = (n, k) if transpose_rhs else (k, n)
    shapes = ((M, k), (LAYERS, len(SIZES), *inner), (LAYERS, len(SIZES), n))
    return [rng.standard_normal(s, np.float32).astype(dtype) for s in shapes]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", range(LAYERS))
def test_grouped_gemm_layer_is_the_slice(device, mode, form, layer):
    lhs, rhs, _ = stacked()
    index = FORMS[form](layer)
    out = gg.grouped_gemm(lhs, rhs, SIZES, layer=index, mode=mode)
    assert_bit_equal(out, gg.grouped_gemm(lhs, rhs[layer], SIZES, mode=mode))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_grouped_gemm_layer_with_bias_and_offset(device, dtype, transpose_rhs):
    lhs, rhs, bias = stacked(dtype, transpose_rhs, 20, 36)
    options = {"transpose_rhs": transpose_rhs, "group_offset": 1}
    out = gg.grouped_gemm(
        lhs, rhs[:, 1:3], SIZES, bias=bias[:, 1:3], layer=jnp.int32(2), **options
    )
    expected = gg.grouped_gemm(lhs, rhs[2, 1:3], SIZES, bias=bias[2, 1:3], **options)
    assert_bit_equal(out, expected)


def test_grouped_gemm_layer_of_other_layers_influences_nothing(device):
    lhs, rhs, bias = stacked()
    expected = gg.grouped_gemm(lhs, rhs[1], SIZES, bias=bias[1])
    rhs[[0, 2]] = bias[[0, 2]] = np.nan
    out = gg.grouped_gemm(lhs, rhs, SIZES, bias=bias, layer=jnp.int32(1))
    assert_bit_equal(out, expected)


def test_grouped_gemm_layer_gradient_of_lhs(device):
    """lhs may be differentiated: the stack is only read, transposed."""
    lhs, rhs, _ = stacked()

    def gradient(rhs, **options):
        def loss(lhs):
            return jnp.sum(jnp.sin(gg.grouped_gemm(lhs, rhs, SIZES, **options)))

        return jax.grad(loss)(lhs)

    assert_bit_equal(gradient(rhs, layer=jnp.int32(1)), gradient(rhs[1]))


def scan_of_layers(x, rhs, sizes):
    def body(x, layer):
        out = gg.grouped_gemm(x, rhs, sizes, layer=layer, name="scanned")
        return jnp.tanh(out), None

    return jax.lax.scan(body, x, jnp.arange(rhs.shape[0]))[0]


def test_grouped_gemm_layer_in_a_scan(device):
    lhs, rhs, _ = stacked()
    expected = lhs
    for weights in rhs:
        expected = jnp.tanh(gg.grouped_gemm(expected, weights, SIZES))
    assert_bit_equal(jax.jit(scan_of_layers)(lhs, rhs, SIZES), expected)


def test_grouped_gemm_layer_compiles_to_no_slice_or_copy_of_the_stack():
    lhs, rhs, _ = stacked()
    compiled = jax.jit(scan_of_layers).lower(lhs, rhs, SIZES).compile().as_text()
    whole, part = "f32[3,4,24,24]", "f32[4,24,24]"
    assert "graphsafe_gg_grouped_gemm" in compiled
    assert whole in compiled
    assert part not in compiled
    assert "f32[1,4,24,24]" not in compiled
    makers = ("parameter(", "get-tuple-element(", "bitcast(", "tuple(", "while(")
    for line in compiled.splitlines():
        made = line.partition(" = ")[2]
        if made.startswith(whole):
            assert any(maker in made for maker in makers), line


def test_grouped_gemm_layer_refuses_the_gradient_of_a_stack(device):
    lhs, rhs, bias = stacked()

    def loss(rhs, bias):
        out = gg.grouped_gemm(lhs, rhs, SIZES, bias=bias, layer=jnp.int32(0))
        return jnp.sum(out)

    for argument, name in enumerate(("rhs", "bias")):
        text = (
            f"grouped_gemm: {name} must not be stacked over layers where it is "
            "differentiated; got layer=. Its gradient would be a whole stack for every "
            "layer: pass the slices as scan inputs instead."
        )
        with raises_text(NotImplementedError, text):
            jax.grad(loss, argument)(rhs, bias)


def test_grouped_gemm_layer_errors(device):
    lhs, rhs, bias = stacked()
    text = (
        "grouped_gemm: layer must be in [0, 2]; got 3. Count layers of the stack from "
        "0."
    )
    with raises_text(ValueError, text):
        gg.grouped_gemm(lhs, rhs, SIZES, layer=3)
    with pytest.raises(ValueError, match=r"rhs must have shape \(layers, g, k, n\)"):
        gg.grouped_gemm(lhs, rhs[0], SIZES, layer=0)
    with pytest.raises(ValueError, match=r"rhs must have shape \(g, k, n\)"):
        gg.grouped_gemm(lhs, rhs, SIZES)
    with pytest.raises(ValueError, match=r"bias must have shape \(3, 4, 24\)"):
        gg.grouped_gemm(lhs, rhs, SIZES, bias=bias[0], layer=0)


@pytest.mark.parametrize("layer", [-1, 3])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_grouped_gemm_layer_traced_out_of_range_raises(device, layer, mode):
    lhs, rhs, _ = stacked()
    with pytest.raises((ValueError, jax.errors.JaxRuntimeError)) as raised:
        jax.block_until_ready(
            gg.grouped_gemm(
                lhs, rhs, SIZES, layer=jnp.int32(layer), mode=mode, name="experts"
            )
        )
    assert (
        f"grouped_gemm: layer must be in [0, 2]; got {layer} (call site experts). "
        "Count layers of the stack from 0."
    ) in str(raised.value)
