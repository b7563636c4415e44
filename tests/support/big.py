# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Operands too large to make on the host: each element follows from its coordinates."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_MODULUS = 251


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def patterned(shape: tuple[int, ...], dtype=jnp.bfloat16, seed: int = 0) -> jax.Array:
    """Values in [-1, 1] that bfloat16 and float16 hold exactly, made on the device."""
    total = jnp.full(shape, seed, jnp.int32)
    for axis, factor in zip(range(len(shape)), _factors(len(shape)), strict=True):
        total += lax.broadcasted_iota(jnp.int32, shape, axis) % _MODULUS * factor
    return ((total % _MODULUS - 125).astype(jnp.float32) / 128).astype(dtype)


def patterned_part(shape, index, dtype=jnp.bfloat16, seed: int = 0) -> np.ndarray:
    """`patterned(shape, dtype, seed)[index]` on the host, without the whole of it."""
    coordinates = np.meshgrid(
        *(
            np.atleast_1d(np.arange(size)[part])
            for size, part in zip(shape, index, strict=True)
        ),
        indexing="ij",
        sparse=True,
    )
    total = np.int64(seed)
    for coordinate, factor in zip(coordinates, _factors(len(shape)), strict=True):
        total = total + coordinate % _MODULUS * factor
    return ((total % _MODULUS - 125) / np.float32(128)).astype(dtype)


def _factors(rank: int) -> tuple[int, ...]:
    """One prime for each axis: neighbours along any axis differ."""
    return (7, 29, 113)[-rank:]
