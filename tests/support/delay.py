# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Work that keeps a device busy, in front of what the test is about."""

import functools

import jax
import jax.numpy as jnp
from support.platforms import is_cuda


@functools.partial(jax.jit, static_argnums=1)
def _busy(matrix, num_products):
    for _ in range(num_products):
        matrix = jnp.tanh(matrix @ matrix)
    return matrix


def busy(device: jax.Device) -> jax.Array:
    """Some 100 ms of products on a GPU, little on a CPU: enqueued, not waited for."""
    width, num_products = (8192, 60) if is_cuda(device) else (64, 4)
    return _busy(jnp.ones((width, width), jnp.bfloat16), num_products)
