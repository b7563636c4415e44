# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Steps that the tests of this folder compile: decode layers of an MoE model."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

import graphsafe_gg as gg

NUM_LAYERS = 8
NUM_TOKENS, HIDDEN, FFN, NUM_EXPERTS, TOP_K, CONTEXT = 16, 256, 512, 8, 2, 128
DTYPE = jnp.bfloat16


class Layer(NamedTuple):
    """Weights of one layer, or with leading axes those of a stack."""

    qkv: jax.ShapeDtypeStruct
    out: jax.ShapeDtypeStruct
    router: jax.ShapeDtypeStruct
    gate_up: jax.ShapeDtypeStruct
    down: jax.ShapeDtypeStruct


def shape(*axes, dtype=DTYPE):
    return jax.ShapeDtypeStruct(axes, dtype)


def layer_shapes(*stack):
    return Layer(
        qkv=shape(*stack, HIDDEN, 3 * HIDDEN),
        out=shape(*stack, HIDDEN, HIDDEN),
        router=shape(*stack, HIDDEN, NUM_EXPERTS),
        gate_up=shape(*stack, NUM_EXPERTS, HIDDEN, 2 * FFN),
        down=shape(*stack, NUM_EXPERTS, FFN, HIDDEN),
    )


def cache_shape(*stack):
    return shape(*stack, 2, NUM_TOKENS, CONTEXT, HIDDEN)


TOKENS = shape(NUM_TOKENS, HIDDEN)
POSITION = shape(dtype=jnp.int32)


def normalise(x):
    mean_square = jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square).astype(DTYPE)


def attend(x, layer, cache, position):
    """One head over a cache that the step extends at a position known on the device."""
    query, key, value = jnp.split(normalise(x) @ layer.qkv, 3, axis=-1)
    new = jnp.stack([key, value])[:, :, None]
    zero = jnp.zeros_like(position)
    cache = jax.lax.dynamic_update_slice(cache, new, (zero, zero, position, zero))
    scores = jnp.einsum("th,tch->tc", query, cache[0]).astype(jnp.float32)
    is_future = jnp.arange(CONTEXT) > position
    scores = jnp.where(is_future[None], -jnp.inf, scores)
    weights = jax.nn.softmax(scores).astype(DTYPE)
    return x + jnp.einsum("tc,tch->th", weights, cache[1]) @ layer.out, cache


def decode_layer(x, layer, cache, position, mode, name):
    x, cache = attend(x, layer, cache, position)
    return x + expert_layer(x, layer, mode, name), cache


def expert_layer(x, layer, mode, name):
    hidden = normalise(x)
    return gg.moe_mlp(
        hidden,
        hidden @ layer.router,
        layer.gate_up,
        layer.down,
        top_k=TOP_K,
        mode=mode,
        name=name,
    )


def unrolled(mode, before_layer=lambda x, index: x):
    """A step over separate layers. `before_layer` may break it at one of them."""

    def decode_step(x, layers, caches, position):
        new_caches = []
        for index, (layer, cache) in enumerate(zip(layers, caches, strict=True)):
            x = before_layer(x, index)
            x, cache = decode_layer(x, layer, cache, position, mode, f"layer{index}")
            new_caches.append(cache)
        return normalise(x), new_caches

    return jax.jit(decode_step, donate_argnums=2)


def unrolled_args(num_layers=NUM_LAYERS):
    layers = [layer_shapes() for _ in range(num_layers)]
    caches = [cache_shape() for _ in range(num_layers)]
    return TOKENS, layers, caches, POSITION


def sliced(mode):
    """A step that takes each layer of a stack by a static index."""

    def decode_step(x, layers, caches, position):
        new_caches = []
        for index, cache in enumerate(caches):
            layer = jax.tree.map(lambda stack, index=index: stack[index], layers)
            x, cache = decode_layer(x, layer, cache, position, mode, f"layer{index}")
            new_caches.append(cache)
        return normalise(x), new_caches

    return jax.jit(decode_step, donate_argnums=2)


def sliced_args(num_layers=NUM_LAYERS):
    caches = [cache_shape() for _ in range(num_layers)]
    return TOKENS, layer_shapes(num_layers), caches, POSITION


def scanned(mode):
    """A step that scans over a stack of layers."""

    def decode_step(x, layers, caches, position):
        def body(x, layer_and_cache):
            layer, cache = layer_and_cache
            return decode_layer(x, layer, cache, position, mode, "layer")

        x, caches = jax.lax.scan(body, x, (layers, caches))
        return normalise(x), caches

    return jax.jit(decode_step, donate_argnums=2)


def scanned_args(num_layers=NUM_LAYERS):
    return TOKENS, layer_shapes(num_layers), cache_shape(num_layers), POSITION


def trained(mode):
    """Gradients of a scalar loss for the tokens and every weight."""

    def loss(x, layers):
        for index, layer in enumerate(layers):
            x = x + expert_layer(x, layer, mode, f"layer{index}")
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    return jax.jit(jax.grad(loss, argnums=(0, 1)))


def trained_args(num_layers=2):
    return TOKENS, [layer_shapes() for _ in range(num_layers)]


def pair(x, w, sizes, mode="device", name="pair"):
    """Two products around an activation, with a residual: four operations."""
    y = gg.grouped_gemm(x, w, sizes, mode=mode, name=f"{name}.up")
    y = jnp.tanh(y - y.mean(-1, keepdims=True).astype(DTYPE))
    y = gg.grouped_gemm(y, w, sizes, mode=mode, name=f"{name}.down")
    return x + jax.nn.softmax(y)


PAIR_ARGS = (
    shape(2 * NUM_TOKENS, HIDDEN),
    shape(NUM_EXPERTS, HIDDEN, HIDDEN),
    shape(NUM_EXPERTS, dtype=jnp.int32),
)
