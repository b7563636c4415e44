# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`grouped_mlp` behind a LayerNorm or an RMSNorm."""

from typing import Unpack

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from graphsafe_gg.api.group_sizes import GroupSizes
from graphsafe_gg.mlp.checks import check_float, check_rank, check_shape
from graphsafe_gg.mlp.grouped_mlp import (
    check_group_sizes,
    copied_sizes,
    expert_products,
    keeping,
    sizes_array,
)
from graphsafe_gg.mlp.norm import check_norm, normalize_rows
from graphsafe_gg.mlp.options import MlpOptions, mlp_options
from graphsafe_gg.mlp.weights import GateUp, expert_weights


def grouped_layernorm_mlp(
    x: ArrayLike,
    gamma: ArrayLike,
    w_gate_up: GateUp,
    w_down: ArrayLike,
    group_sizes: ArrayLike | GroupSizes,
    *,
    beta: ArrayLike | None = None,
    norm: str = "layernorm",
    epsilon: float = 1e-6,
    **options: Unpack[MlpOptions],
) -> jax.Array:
    """Normalises each row and applies the MLP of its group to it.

    out[r] = mlp(norm(x[r]) * gamma + beta) with `grouped_mlp` of the group of r; rows
    at or past sum(group_sizes) are exact zeros and influence nothing.

    Args:
      x: (m, h) bfloat16, float16 or float32, rows sorted by group.
      gamma: (h,) bfloat16, float16 or float32, shared by all groups.
      w_gate_up: as in `grouped_mlp`.
      w_down: as in `grouped_mlp`.
      group_sizes: as in `grouped_mlp`.
      beta: (h,), of "layernorm" only.
      norm: "layernorm" (mean 0, variance 1) or "rmsnorm" (mean square 1).
      epsilon: added to the variance or the mean square.
      **options: b_gate_up, b_down, activation, interleaved, recompute, mode,
        precision and name of `grouped_mlp`.

    Returns:
      (m, h) in the dtype of x. The norm is computed in float32 and rounded once.

    Raises: as `grouped_mlp`; ValueError for an unknown norm, a beta of "rmsnorm" and
    shapes of gamma and beta.

    Under jit, grad, jvp, vmap and scan, graph safety, cost: as `grouped_mlp`. The
    normalised rows are computed again in the backward pass, never kept. A NaN in one
    group reaches the gradients of gamma and beta, which all groups share.
    """
    op = "grouped_layernorm_mlp"
    x = jnp.asarray(x)
    check_rank(op, "x", x, "m, h")
    check_float(op, "x", x)
    check_norm(op, norm, beta is not None)
    norm_weights = {"gamma": gamma} if beta is None else {"gamma": gamma, "beta": beta}
    arrays = {argument: jnp.asarray(value) for argument, value in norm_weights.items()}
    for argument, array in arrays.items():
        check_float(op, argument, array)
        check_shape(op, argument, array, (x.shape[1],), "x")
    filled = mlp_options(op, w_gate_up, **options)
    weights = expert_weights(op, "x", x, w_gate_up, w_down, filled)
    group_sizes = check_group_sizes(op, group_sizes, weights)

    def experts(x, group_sizes, weights, *norm_weights):
        x, group_sizes = copied_sizes(x, group_sizes, filled)
        num_rows = _num_rows(sizes_array(group_sizes), x.shape[0])
        x = normalize_rows(x, num_rows, *norm_weights, norm=norm, epsilon=epsilon)
        return expert_products(op, x, group_sizes, weights, filled)

    layer = keeping(experts, group_sizes, filled)
    return layer(x, group_sizes, weights, *arrays.values())


def _num_rows(sizes: jax.Array, m: int) -> jax.Array:
    """The rows that the products read: a negative size counts as 0."""
    return jnp.sum(jnp.clip(sizes.astype(jnp.int32), 0, m))
