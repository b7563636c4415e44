# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K14: 8-bit types are not built, and asking for them says so.

P-037 and P-038 do not apply: no operation takes scales.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import graphsafe_gg as gg

SIZES = np.array([33, 0, 95, 128], np.int32)


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2])
def test_p036_names_the_type(dtype):
    """P-036: a TypeError with the type and those that work, before anything runs."""
    x = jnp.zeros((256, 96), dtype)
    w_gate_up, w_down = jnp.zeros((4, 96, 64), dtype), jnp.zeros((4, 32, 96), dtype)
    text = f"must be bfloat16, float16 or float32; got {np.dtype(dtype).name}"
    with pytest.raises(TypeError, match=f"grouped_gemm: lhs {text}"):
        gg.grouped_gemm(x, w_gate_up, SIZES)
    with pytest.raises(TypeError, match=f"grouped_mlp: x {text}"):
        gg.grouped_mlp(x, w_gate_up, w_down, SIZES)
    with pytest.raises(TypeError, match=f"moe_mlp: tokens {text}"):
        gg.moe_mlp(x, jnp.zeros((256, 4)), w_gate_up, w_down, top_k=2)
