# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The public operation: validate, choose a path, bind the primitive."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from graphsafe_gg import _runtime
from graphsafe_gg.api import manual_axes, primitives, validation
from graphsafe_gg.api.call_site import call_site, check_name, default_name
from graphsafe_gg.api.group_sizes import GroupSizes
from graphsafe_gg.api.mode import choose_mode
from graphsafe_gg.api.operands import Index, OptionalOperands
from graphsafe_gg.api.precision import check_precision


def grouped_gemm(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike | GroupSizes,
    *,
    mode: str = "auto",
    transpose_rhs: bool = False,
    bias: ArrayLike | None = None,
    group_offset: ArrayLike | None = None,
    layer: ArrayLike | None = None,
    preferred_element_type: DTypeLike | None = None,
    precision=None,
    name: str | None = None,
) -> jax.Array:
    """Multiplies each group of rows of lhs by its own matrix in rhs.

    ``out[r] = lhs[r] @ rhs[group of r] + bias[group of r]``; rows at or past
    ``sum(group_sizes)`` are exact zeros, and nothing they hold in lhs reaches any
    result or gradient.

    Args:
      lhs: (m, k), bfloat16, float16 or float32. The rows of group i follow those of
        group i - 1. Any m >= 0 and any alignment.
      rhs: (g, k, n), or (g, n, k) with ``transpose_rhs``; lhs's dtype.
      group_sizes: (g,), any integer dtype, on the device, or what copy_group_sizes made
        of it. May change from one execution, and from one replay of a CUDA graph, to
        the next.
      mode: "device" keeps the sizes on the GPU: one launch, no host wait, capturable.
        "async" waits on the host for the copy that copy_group_sizes started, then
        launches with known sizes; given a plain array it makes the copy itself, late.
        "sync" copies them at the call and waits. "auto" takes "device". On a CPU all
        modes are the same call.
      transpose_rhs: rhs is stored as (g, n, k). Nothing is transposed in memory.
      bias: (g, n), lhs's dtype, added in float32 before the one rounding.
      group_offset: integer or integer array, scalar or (1,), static or traced: rhs and
        bias hold groups ``group_offset .. group_offset + g - 1`` of those that
        group_sizes counts. Rows of the others are exact zeros in the result and in
        their gradient, and influence nothing.
      layer: integer or integer array, scalar or (1,): rhs is a stack (layers, g, k, n)
        or (layers, g, n, k), bias (layers, g, n), and this one of it is multiplied. The
        index is read on the device and nothing is sliced or copied, so that a scan over
        layers is captured once. For inference: differentiating rhs or bias raises.
      preferred_element_type: dtype of the result; lhs's by default.
      precision: as for ``jax.lax.ragged_dot``. Products are exact in the operands'
        dtype and sums are float32 at every setting; presets that ask for anything else
        raise.
      name: names the call site in errors and in `stats()`. By default the JAX named
        scopes of the function that is traced, the operation and rhs's shape and dtype.

    Returns:
      (m, n) in preferred_element_type. Accumulation is float32, rounded once.

    Raises:
      ValueError: ranks, shapes, an unknown mode or precision, a static group_offset or
        layer out of range.
      TypeError: dtypes that differ or are not supported.
      NotImplementedError: float64, a mode or preset that is not built; differentiating
        a stacked rhs or bias.
      GroupSizesError: an earlier execution of this call site recorded bad sizes.
      jax.errors.JaxRuntimeError: bad sizes seen by the host ("sync" and "async", or any
        mode on a CPU), before any launch. jit's compiled path raises the same text as a
        ValueError: design/errors.md.

    Under jit, scan, checkpoint: yes. grad and jvp of any order: yes, in lhs, rhs and
    bias; a cotangent wider than the operand is rounded to its dtype first. vmap: the
    batch becomes one product of more rows or groups; no weight is copied, nothing
    loops, and async calls make their own copy of the sizes (design/vmap.md). A mapped
    layer or stack raises.
    Sharding: inside shard_map, or under a plain jit over n and k, which are split;
    sharded rows or groups raise there, with advice (design/sharding.md).

    Graph safety: "device" never reads group_sizes on the host, launches one kernel
    whose shape follows from static facts, and is captured by XLA's command buffers. A
    negative size counts as 0 and a group is cut to the rows that are left; a traced
    group_offset out of range leaves rows without a matrix, and a layer out of range all
    rows, which are then zeros. The first such error is recorded for ``check()``.
    "async" and "sync" split the graph at the call; they wait for a traced group_offset
    or layer, too.

    Cost: no workspace; one launch for the result and one for each gradient. Where the
    host knows the sizes and groups are few and large, one GEMM a group instead.

    Source: csrc/kernels, design/architecture.md.
    """
    op = "grouped_gemm"
    validation.check_mode(op, mode)
    check_name(op, name)
    lhs, rhs = jnp.asarray(lhs), jnp.asarray(rhs)
    sizes, ticket = _sizes_and_ticket(group_sizes)
    validation.check_operands(
        op,
        lhs,
        rhs,
        sizes,
        transpose_rhs,
        has_layers=layer is not None,
        has_offset=group_offset is not None,
    )
    validation.check_dtypes(op, lhs, rhs, sizes)
    if bias is not None:
        bias = jnp.asarray(bias)
        validation.check_bias(op, bias, rhs, transpose_rhs)
    offset_limit = sizes.shape[0] - rhs.shape[-3]
    offset_index = _index(op, "group_offset", group_offset, offset_limit)
    layer_index = _index(op, "layer", layer, rhs.shape[0] - 1)
    out_dtype = validation.result_dtype(op, lhs, preferred_element_type)
    check_precision(op, precision, lhs.dtype)
    site = call_site(name or default_name(op, rhs))
    _runtime.raise_recorded_errors(site % 2**64)
    mode = choose_mode(mode)
    optional = OptionalOperands(
        ticket if mode == "async" else None,
        bias,
        offset_index.traced,
        layer_index.traced,
    )
    lhs, rhs, sizes, *rest = manual_axes.align(lhs, rhs, sizes, *optional.present())
    return primitives.grouped_gemm_p.bind(
        lhs,
        rhs,
        sizes,
        *rest,
        transpose_rhs=bool(transpose_rhs),
        out_dtype=out_dtype,
        mode=mode,
        site=site,
        optional=optional.bits,
        group_offset=offset_index.static,
        layer=layer_index.static,
    )


def _index(op: str, name: str, index, limit: int) -> Index:
    return Index() if index is None else validation.as_index(op, name, index, limit)


def _sizes_and_ticket(group_sizes):
    if isinstance(group_sizes, GroupSizes):
        return jnp.asarray(group_sizes.sizes), group_sizes.ticket
    return jnp.asarray(group_sizes), None
