# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The gated MLP of every expert on rows that are already sorted by expert."""

import jax
import jax.numpy as jnp

from graphsafe_gg._errors import message
from graphsafe_gg.api.call_site import default_name
from graphsafe_gg.api.group_sizes import GroupSizes, copy_group_sizes
from graphsafe_gg.api.grouped_gemm import grouped_gemm
from graphsafe_gg.api.validation import check_mode
from graphsafe_gg.mlp.activation import check_activation, gated_activation
from graphsafe_gg.mlp.checks import (
    check_float,
    check_int,
    check_rank,
    check_same_dtype,
    check_shape,
)


def grouped_mlp(
    x: jax.Array,
    w_gate_up: jax.Array,
    w_down: jax.Array,
    group_sizes: jax.Array | GroupSizes,
    *,
    activation: str = "silu",
    mode: str = "auto",
    precision: jax.lax.PrecisionLike = None,
    name: str | None = None,
) -> jax.Array:
    """Applies to each group of rows the gated MLP of its own expert.

    out[r] = (act(x[r] @ gate) * (x[r] @ up)) @ down with the matrices of the group
    of r; rows at or past sum(group_sizes) are exact zeros.

    Args:
      x: (m, h) bfloat16, float16 or float32, rows sorted by group.
      w_gate_up: (g, h, 2 * f) in the dtype of x; the first f columns are the gate,
        the last f columns are up.
      w_down: (g, f, h) in the dtype of x.
      group_sizes: (g,) integers on the device, or what `copy_group_sizes` made of
        them; may change at every call and at every replay of a graph. In mode
        "async" an array is copied once, before x is used, for both products.
      activation: applied to the gate: "silu", "gelu" (exact), "gelu_tanh" or "relu".
      mode: of both products, as in `grouped_gemm`.
      precision: of both products, as in `grouped_gemm`.
      name: call site in messages and statistics; the products append ".gate_up"
        and ".down".

    Returns:
      (m, h) in the dtype of x. Each product accumulates in float32 and rounds to
      the dtype of x; the activation is computed in float32 and rounded once.

    Raises:
      ValueError: ranks, widths, an odd gated width, an unknown activation or mode.
      TypeError: dtypes that differ or are not floating point.
      NotImplementedError: float64, or a mode that cannot run.

    Under jit, grad and scan: as `grouped_gemm`, in x and both weights. vmap: raises.
    Graph safety: that of `grouped_gemm` in the same mode.
    Cost: two products; one (m, 2 * f) and one (m, f) intermediate.
    """
    if not isinstance(group_sizes, GroupSizes):
        group_sizes = jnp.asarray(group_sizes)
    return grouped_mlp_for(
        "grouped_mlp",
        jnp.asarray(x),
        jnp.asarray(w_gate_up),
        jnp.asarray(w_down),
        group_sizes,
        activation=activation,
        mode=mode,
        precision=precision,
        name=name,
    )


def grouped_mlp_for(
    op: str,
    x: jax.Array,
    w_gate_up: jax.Array,
    w_down: jax.Array,
    group_sizes: jax.Array | GroupSizes,
    *,
    activation: str,
    mode: str,
    precision: jax.lax.PrecisionLike,
    name: str | None,
) -> jax.Array:
    """`grouped_mlp` whose messages and call sites carry the name `op`."""
    check_mode(op, mode)
    check_rank(op, "x", x, "m, h")
    check_float(op, "x", x)
    check_weights(op, "x", x, w_gate_up, w_down)
    check_activation(op, activation)
    is_copied = isinstance(group_sizes, GroupSizes)
    sizes = group_sizes.sizes if is_copied else group_sizes
    check_int(op, "group_sizes", sizes)
    check_shape(op, "group_sizes", sizes, w_gate_up.shape[:1], "w_gate_up")
    if mode == "async" and not is_copied:
        x, group_sizes = copy_group_sizes(sizes, before=x)
    site = name or default_name(op, w_gate_up)

    def product(lhs: jax.Array, rhs: jax.Array, part: str) -> jax.Array:
        return grouped_gemm(
            lhs,
            rhs,
            group_sizes,
            mode=mode,
            precision=precision,
            name=f"{site}.{part}",
        )

    gate_up = product(x, w_gate_up, "gate_up")
    return product(gated_activation(gate_up, activation), w_down, "down")


def check_weights(
    op: str, x_name: str, x: jax.Array, w_gate_up: jax.Array, w_down: jax.Array
) -> None:
    """Raises unless the two weights belong to one gated MLP for rows like x."""
    check_rank(op, "w_gate_up", w_gate_up, "g, h, 2 * f")
    check_rank(op, "w_down", w_down, "g, f, h")
    num_groups, _, gated_width = w_gate_up.shape
    hidden = x.shape[1]
    if gated_width % 2:
        rule = "have an even last axis, gate and up side by side"
        advice = "Concatenate gate and up along the last axis."
        raise ValueError(message(op, "w_gate_up", rule, w_gate_up.shape, advice))
    check_shape(op, "w_gate_up", w_gate_up, (num_groups, hidden, gated_width), x_name)
    check_shape(
        op,
        "w_down",
        w_down,
        (num_groups, gated_width // 2, hidden),
        f"{x_name} and w_gate_up",
    )
    check_same_dtype(op, "w_gate_up", w_gate_up, x_name, x)
    check_same_dtype(op, "w_down", w_down, x_name, x)
