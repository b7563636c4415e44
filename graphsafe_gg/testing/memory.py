# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Fills the allocator's free memory with NaN, so that output nobody wrote shows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

_MIB = 2**20
# From large to small: an allocator that splits and joins blocks then hands out dirty
# memory for results of any size.
_GPU_BLOCKS = ((256 * _MIB, 1), (16 * _MIB, 4), (_MIB, 8), (64 * 1024, 16), (4096, 32))
_CPU_BLOCKS = ((4 * _MIB, 1), (_MIB, 4), (64 * 1024, 16), (4096, 32))
# NaN in float32, float16 and bfloat16 alike.
_NAN_BITS = 0xFFFFFFFF


def dirty_memory(device: jax.Device | None = None, fill: float = float("nan")) -> None:
    """Allocates arrays on the device, fills them and frees them again.

    Fresh memory often reads as zero, which hides output that was never written.
    Without preallocation (`XLA_PYTHON_CLIENT_PREALLOCATE=false`) what follows most
    likely gets this memory; there is no guarantee.

    Args:
      device: the default device if None.
      fill: what the memory reads as in float32; NaN reads as NaN in bfloat16 and
        float16 too.
    """
    target = jax.devices()[0] if device is None else device
    bits = _NAN_BITS if np.isnan(fill) else int(np.float32(fill).view(np.uint32))
    blocks = _CPU_BLOCKS if target.platform == "cpu" else _GPU_BLOCKS
    word = jax.device_put(np.uint32(bits), target)
    held = [
        _filled(word, size_bytes // 4)
        for size_bytes, count in blocks
        for _ in range(count)
    ]
    jax.block_until_ready(held)
    for array in held:
        array.delete()


@functools.partial(jax.jit, static_argnums=1)
def _filled(word: jax.Array, num_words: int) -> jax.Array:
    return jnp.broadcast_to(word, (num_words,))
