# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The MLP of every expert on rows that are already sorted by expert."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.typing import ArrayLike, DTypeLike

from graphsafe_gg.api.group_sizes import GroupSizes, copy_group_sizes
from graphsafe_gg.api.grouped_gemm import grouped_gemm
from graphsafe_gg.mlp.activation import activate
from graphsafe_gg.mlp.checks import check_float, check_int, check_rank, check_shape
from graphsafe_gg.mlp.options import mlp_options
from graphsafe_gg.mlp.permute import ROW_ORDER
from graphsafe_gg.mlp.recording import record
from graphsafe_gg.mlp.weights import ExpertWeights, GateUp, expert_weights

PRE_ACTIVATION = "graphsafe_gg_pre_activation"


def grouped_mlp(
    x: ArrayLike,
    w_gate_up: GateUp,
    w_down: ArrayLike,
    group_sizes: ArrayLike | GroupSizes,
    *,
    b_gate_up: GateUp | None = None,
    b_down: ArrayLike | None = None,
    activation: str = "swiglu",
    interleaved: bool = False,
    recompute: bool = False,
    preferred_element_type: DTypeLike | None = None,
    mode: str = "auto",
    precision: jax.lax.PrecisionLike = None,
    name: str | None = None,
) -> jax.Array:
    """Applies to each group of rows the MLP of its own expert.

    out[r] = act(x[r] @ gate + b_gate, x[r] @ up + b_up) @ down + b_down with the
    matrices of the group of r; rows at or past sum(group_sizes) are exact zeros.

    Args:
      x: (m, h) bfloat16, float16 or float32, rows sorted by group.
      w_gate_up: in the dtype of x. For a gated activation (g, h, 2 * f): the first f
        columns are the gate, the last f are up, or, `interleaved`, gate and up in
        turn; or the pair (gate, up) of (g, h, f) arrays, and two products. For a
        plain activation (g, h, f).
      w_down: (g, f, h) in the dtype of x.
      group_sizes: (g,) integers on the device, or what `copy_group_sizes` made of
        them; may change at every call and at every replay of a graph. In mode
        "async" an array is copied once, before x is used, for all products.
      b_gate_up: biases (g, 2 * f) or (g, f), as w_gate_up comes: in one array, in the
        same order of columns, or as a pair.
      b_down: bias (g, h).
      activation: gated: "swiglu", "geglu" (exact), "geglu_tanh", "reglu" or
        "clamped_swiglu" (gpt-oss: alpha 1.702, limit 7, up + 1). Plain: "silu",
        "gelu" (exact), "gelu_tanh", "relu" or "relu2" (squared).
      interleaved: gate and up columns of one array take turns, gate first.
      recompute: what the backward pass finds. False keeps the pre-activation, x @
        w_gate_up + b_gate_up, and computes the activation again from it. True keeps
        none and multiplies again. The pre-activation is named PRE_ACTIVATION
        ("graphsafe_gg_pre_activation") for `jax.checkpoint` policies, and a policy
        around the layer decides instead of this option.
      preferred_element_type: dtype of the result; that of x by default.
      mode: of all products, as in `grouped_gemm`.
      precision: of all products, as in `grouped_gemm`.
      name: call site in messages and statistics; the products append ".gate_up" (or
        ".gate" and ".up") and ".down".

    Returns:
      (m, h) in preferred_element_type. Each product accumulates in float32 and rounds
      to the dtype of x; the activation is computed in float32 and rounded once.

    Raises:
      ValueError: ranks, widths, an odd gated width, a pair without a gate, an unknown
        activation or mode.
      TypeError: dtypes that differ or are not floating point.
      NotImplementedError: float64, or a mode that cannot run.

    Under jit, grad, jvp, vmap and scan: as `grouped_gemm`, in x, weights and biases.
    Graph safety: that of `grouped_gemm` in the same mode.
    Cost: two products, three with gate and up apart; one (m, 2 * f) and one (m, f)
    intermediate. The first is all that is kept for the backward pass.
    """
    op = "grouped_mlp"
    x = jnp.asarray(x)
    check_rank(op, "x", x, "m, h")
    check_float(op, "x", x)
    options = mlp_options(
        op,
        w_gate_up,
        b_gate_up=b_gate_up,
        b_down=b_down,
        activation=activation,
        interleaved=interleaved,
        recompute=recompute,
        mode=mode,
        precision=precision,
        name=name,
    )
    weights = expert_weights(op, "x", x, w_gate_up, w_down, options)
    group_sizes = check_group_sizes(op, group_sizes, weights)

    def experts(x, group_sizes, weights):
        x, group_sizes = copied_sizes(x, group_sizes, options)
        out_dtype = preferred_element_type
        return expert_products(op, x, group_sizes, weights, options, out_dtype)

    return keeping(experts, group_sizes, options)(x, group_sizes, weights)


def check_group_sizes(
    op: str, group_sizes: ArrayLike | GroupSizes, weights: ExpertWeights
) -> jax.Array | GroupSizes:
    """The sizes, recorded; raises unless there is one for each group."""
    if not isinstance(group_sizes, GroupSizes):
        group_sizes = jnp.asarray(group_sizes)
    sizes = sizes_array(group_sizes)
    check_int(op, "group_sizes", sizes)
    check_shape(op, "group_sizes", sizes, (weights.num_groups,), "the weights")
    record(sizes)
    return group_sizes


def sizes_array(group_sizes: jax.Array | GroupSizes) -> jax.Array:
    return group_sizes.sizes if isinstance(group_sizes, GroupSizes) else group_sizes


def copied_sizes(
    x: jax.Array, group_sizes: jax.Array | GroupSizes, options: dict[str, Any]
) -> tuple[jax.Array, jax.Array | GroupSizes]:
    """In mode "async" the one copy for all products of a layer, held in front of x."""
    if options["mode"] != "async" or isinstance(group_sizes, GroupSizes):
        return x, group_sizes
    return copy_group_sizes(group_sizes, before=x)


def expert_products(
    op: str,
    x: jax.Array,
    group_sizes: jax.Array | GroupSizes,
    weights: ExpertWeights,
    options: dict[str, Any],
    out_dtype: DTypeLike | None = None,
) -> jax.Array:
    """`grouped_mlp` on checked operands, as plain operations."""

    def product(lhs, rhs, bias, part, out_dtype=None):
        return grouped_gemm(
            lhs,
            rhs,
            group_sizes,
            mode=options["mode"],
            bias=bias,
            precision=options["precision"],
            preferred_element_type=out_dtype,
            name=f"{options['name']}.{part}",
        )

    parts = ("gate", "up") if len(weights.gate_up) == 2 else ("gate_up",)
    firsts = zip(weights.gate_up, weights.gate_up_bias, parts, strict=True)
    pre_activation = tuple(
        checkpoint_name(product(x, *first), PRE_ACTIVATION) for first in firsts
    )
    hidden = activate(pre_activation, options["activation"], options["interleaved"])
    return product(hidden, weights.down, weights.down_bias, "down", out_dtype)


def keeping(
    layer: Callable[..., Any],
    group_sizes: jax.Array | GroupSizes | None,
    options: dict[str, Any],
) -> Callable[..., Any]:
    """The layer, keeping for its backward pass what `recompute` says.

    A ticket from outside would not be followed into the checkpointed function, and
    every product would copy the sizes again: such a layer keeps what JAX keeps.
    """
    names = (ROW_ORDER,) if options["recompute"] else (ROW_ORDER, PRE_ACTIVATION)
    is_followed = options["mode"] == "async" and isinstance(group_sizes, GroupSizes)
    if is_followed and not options["recompute"]:
        return layer
    policy = jax.checkpoint_policies.save_only_these_names(*names)
    return jax.checkpoint(layer, policy=policy)
