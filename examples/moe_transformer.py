# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A small MoE transformer in plain JAX: parameters, training pass, decode step.

One block is x += attention(norm(x)); x += moe(norm(x)), with `gg.moe_mlp` for the
experts. Both passes run the same blocks; the decode step keeps keys and values.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

import graphsafe_gg as gg


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int
    context: int = 64
    num_layers: int = 2
    hidden: int = 64
    num_heads: int = 4
    num_experts: int = 32
    top_k: int = 8
    intermediate: int = 16


Params = dict[str, Any]


def init_params(config: Config, key: jax.Array) -> Params:
    """Random parameters; those of the blocks are stacked over the layers."""
    h, f, g = config.hidden, config.intermediate, config.num_experts
    block_shapes = {
        "qkv": (h, 3 * h),
        "attention_out": (h, h),
        "router": (h, g),
        "w_gate_up": (g, h, 2 * f),
        "w_down": (g, f, h),
    }
    keys = iter(jax.random.split(key, 3 + len(block_shapes)))

    def normal(*shape, scale=None):
        scale = shape[-2] ** -0.5 if scale is None else scale
        return scale * jax.random.normal(next(keys), shape)

    layers = {
        name: normal(config.num_layers, *shape) for name, shape in block_shapes.items()
    }
    return {
        "embed": normal(config.vocab, h, scale=0.5),
        "position": normal(config.context, h, scale=0.5),
        "layers": layers,
        "unembed": normal(h, config.vocab),
    }


def logits_of(params: Params, tokens: jax.Array, config: Config) -> jax.Array:
    """(b, s) token numbers -> (b, s, vocab), each position from those before it."""
    length = tokens.shape[1]
    x = params["embed"][tokens] + params["position"][None, :length]
    is_past = jnp.tril(jnp.ones((length, length), bool))[None, None]
    for layer in _layers(params, config):
        query, key, value = _heads(layer, x, config)
        x = x + _attend(layer, query, key, value, is_past)
        x = x + _moe(layer, x, config, mode="auto")
    return _norm(x) @ params["unembed"]


def init_cache(config: Config, batch: int) -> tuple[jax.Array, jax.Array]:
    """Keys and values of no position: (layers, b, context, heads, h / heads) each."""
    width = config.hidden // config.num_heads
    shape = (config.num_layers, batch, config.context, config.num_heads, width)
    return jnp.zeros(shape), jnp.zeros(shape)


def decode_step(params, cache, tokens, position, config: Config, mode: str):
    """(b,) tokens at one position -> the cache with it, and logits (b, vocab)."""
    keys, values = cache
    x = params["embed"][tokens][:, None] + params["position"][position][None, None]
    is_past = (jnp.arange(config.context) <= position)[None, None, None]
    for i, layer in enumerate(_layers(params, config)):
        query, key, value = _heads(layer, x, config)
        keys = keys.at[i, :, position].set(key[:, 0])
        values = values.at[i, :, position].set(value[:, 0])
        x = x + _attend(layer, query, keys[i], values[i], is_past)
        x = x + _moe(layer, x, config, mode)
    return (keys, values), (_norm(x) @ params["unembed"])[:, 0]


def _layers(params: Params, config: Config):
    for i in range(config.num_layers):
        yield {name: stacked[i] for name, stacked in params["layers"].items()}


def _moe(layer, x, config: Config, mode: str) -> jax.Array:
    tokens = _norm(x).reshape(-1, config.hidden)
    out = gg.moe_mlp(
        tokens,
        tokens @ layer["router"],
        layer["w_gate_up"],
        layer["w_down"],
        top_k=config.top_k,
        mode=mode,
    )
    return out.reshape(x.shape)


def _heads(layer, x, config: Config) -> list[jax.Array]:
    """Query, key and value, (b, s, heads, h / heads) each."""
    qkv = _norm(x) @ layer["qkv"]
    width = config.hidden // config.num_heads
    qkv = qkv.reshape(*x.shape[:2], 3 * config.num_heads, width)
    return jnp.split(qkv, 3, axis=2)


def _attend(layer, query, key, value, is_past) -> jax.Array:
    scores = jnp.einsum("bshd,bthd->bhst", query, key) * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.where(is_past, scores, -jnp.inf), axis=-1)
    out = jnp.einsum("bhst,bthd->bshd", weights, value)
    return out.reshape(*out.shape[:2], -1) @ layer["attention_out"]


def _norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
