# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K13: float16 overflow, and how exact sums are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import MODES

import graphsafe_gg as gg

modes = pytest.mark.parametrize("mode", MODES)


@modes
def test_p034_float16_weighs_before_it_rounds(device, mode):
    """P-034: an expert's result above 65504 with a weight of 0.1 is finite."""
    tokens = np.ones((1, 8), np.float16)
    w_up, w_down = np.full((2, 8, 4), 2, np.float16), np.full((2, 4, 8), 100)
    experts = (w_up, w_down.astype(np.float16))
    options = {"activation": "relu2", "mode": mode}
    routing = np.array([[0, 1]]), np.array([[0.1, 0.0]], np.float32)
    raw = 4 * 16.0**2 * 100
    out = gg.routed_mlp(tokens, *routing, *experts, **options)
    assert out.dtype == jnp.float16
    np.testing.assert_allclose(out, np.full((1, 8), 0.1 * raw), rtol=1e-3)
    sizes = np.array([1, 0], np.int32)
    assert np.isinf(gg.grouped_mlp(tokens, *experts, sizes, **options)).all()
    options["preferred_element_type"] = jnp.float32
    wide = gg.grouped_mlp(tokens, *experts, sizes, **options)
    np.testing.assert_array_equal(wide, np.full((1, 8), raw, np.float32))


@modes
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_p035_gradient_over_many_rows(device, mode, dtype):
    """P-035: 65,536 rows in one sum; float32 within 1e-5 of float64."""
    rng = np.random.default_rng(0)
    lhs, dout = (rng.standard_normal((65536, 8), np.float32) for _ in range(2))
    lhs, dout = lhs.astype(dtype), dout.astype(dtype)
    sizes, rhs = np.array([65536], np.int32), np.zeros((1, 8, 8), dtype)
    gemm = lambda rhs: gg.grouped_gemm(  # noqa: E731
        lhs, rhs, sizes, mode=mode, precision=jax.lax.Precision.HIGHEST
    )
    drhs = jax.jit(lambda dout: jax.vjp(gemm, rhs)[1](dout))(dout)[0][0]
    truth = lhs.astype(np.float64).T @ dout.astype(np.float64)
    limit = 1e-5 if dtype == jnp.float32 else 2.0**-8
    error = np.abs(np.asarray(drhs, np.float64) - truth)
    assert error.max() <= limit * np.abs(truth).max()
