# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""LayerNorm and RMSNorm of rows, in float32 and rounded once."""

import jax
import jax.numpy as jnp

from graphsafe_gg._errors import message

NORMS = ("layernorm", "rmsnorm")


def check_norm(op: str, norm: object, has_beta: bool) -> None:
    if norm not in NORMS:
        rule = "be one of " + ", ".join(map(repr, NORMS))
        raise ValueError(message(op, "norm", rule, repr(norm), "Pass one of these."))
    if has_beta and norm == "rmsnorm":
        rule, advice = "be None for norm 'rmsnorm'", "Use 'layernorm', or drop it."
        raise ValueError(message(op, "beta", rule, "an array", advice))


def normalize_rows(
    x: jax.Array,
    num_rows: jax.Array,
    gamma: jax.Array,
    beta: jax.Array | None = None,
    *,
    norm: str,
    epsilon: float,
) -> jax.Array:
    """(m, h): each of the first num_rows rows normalised over h, then gamma and beta.

    The others are read as zeros: the gradient of gamma sums over all rows, and zero
    times a NaN is a NaN.
    """
    is_row = jnp.arange(x.shape[0], dtype=num_rows.dtype)[:, None] < num_rows
    wide = jnp.where(is_row, x.astype(jnp.float32), 0.0)
    if norm == "layernorm":
        wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    out = wide * jax.lax.rsqrt(variance + epsilon) * gamma.astype(jnp.float32)[None, :]
    if beta is not None:
        out = out + beta.astype(jnp.float32)[None, :]
    return out.astype(x.dtype)
