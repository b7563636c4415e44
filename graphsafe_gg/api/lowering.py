# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Primitive -> FFI custom call, and the one rule of tickets: a GEMM uses a ticket only
if its operand leads back, through optimization barriers alone, to a copy of the very
sizes it takes. Anything else (a loop carry, branch result, residual, argument) may
hold the ticket of another execution, so the call makes its own copy instead."""

import jax
import numpy as np
from jax.interpreters.mlir import ir

from graphsafe_gg import _ffi
from graphsafe_gg._errors import message
from graphsafe_gg.api import partitioning
from graphsafe_gg.api.operands import unpack

# Fallback of csrc/runtime/sites.h, as far as the lowering decides it.
_NO_FALLBACK, _NO_TICKET, _NOT_FOLLOWED = 0, 1, 2

_TICKET_HEADER_BYTES = 32
_TICKET_WORD_BYTES = 4

_COPY = _ffi.target_name("group_sizes_copy")
_TICKET = _ffi.target_name("group_sizes_ticket")
# No lowering emits it: the benchmarks' baseline.
_COPY_UNCAPTURED = _ffi.target_name("group_sizes_copy_uncaptured")
_CONTROL_FLOW = ("stablehlo.while", "stablehlo.case", "stablehlo.if")


def ticket_words(sizes) -> int:
    """Length of the ticket of sizes: csrc/kernels/ticket.h."""
    payload = sizes.shape[0] * np.dtype(sizes.dtype).itemsize
    words = -(-payload // _TICKET_WORD_BYTES)
    return _TICKET_HEADER_BYTES // _TICKET_WORD_BYTES + words


def grouped_gemm(ctx, *operands, transpose_rhs, layer, **params):
    return _product(
        ctx,
        "grouped_gemm",
        operands,
        transpose_rhs=transpose_rhs,
        layer=np.int64(layer),
        **params,
    )


def drhs(ctx, *operands, num_groups, **params):
    return _product(
        ctx, "drhs", operands, transpose_rhs=False, layer=np.int64(-1), **params
    )


def group_sizes_copy(ctx, sizes):
    _check_platform(ctx)
    return jax.ffi.ffi_lowering(_copy_target(ctx))(ctx, sizes)


def _wait_for(copy) -> None:
    """Gives a copy its event. A body that holds a waiting GEMM is never captured as
    that of a conditional or a loop, because the GEMM lacks the trait."""
    if _target(copy) == _TICKET:
        copy.attributes["call_target_name"] = ir.StringAttr.get(_COPY)


def _check_platform(ctx) -> None:
    module = ctx.module_context
    for platform in ctx.platforms or module.platforms:
        if platform not in ("cpu", "cuda"):
            raise NotImplementedError(
                message(
                    "grouped_gemm",
                    "the platform",
                    "be cpu or cuda",
                    platform,
                    "Use jax.lax.ragged_dot there.",
                )
            )


def _product(
    ctx,
    product,
    operands,
    *,
    optional,
    mode,
    site,
    group_offset,
    out_dtype,
    **attributes,
):
    _check_platform(ctx)
    values = unpack(optional, operands[3:])
    avals = unpack(optional, ctx.avals_in[3:])
    fallback = _NO_FALLBACK
    if mode == "async":
        aval = jax.core.ShapedArray(
            (ticket_words(ctx.avals_in[2]),), np.dtype("uint32")
        )
        ticket, fallback = _ticket(ctx, aval, values.ticket, operands[2])
        values, avals = values._replace(ticket=ticket), avals._replace(ticket=aval)
    else:
        values, avals = values._replace(ticket=None), avals._replace(ticket=None)
    rule = jax.ffi.ffi_lowering(_ffi.target_name(f"{product}_{mode}"))
    results = rule(
        ctx.replace(avals_in=[*ctx.avals_in[:3], *avals.present()]),
        *operands[:3],
        *values.present(),
        site=np.int64(site),
        fallback=np.int64(fallback),
        operands=np.int64(values.bits),
        group_offset=np.int64(group_offset),
        **attributes,
    )
    if partitioning.is_partitioned(ctx.module_context.axis_context):
        partitioning.mark(results[0].owner, attributes["transpose_rhs"])
    return results


def _ticket(ctx, aval, given, sizes):
    """The ticket to wait for, and why it is not the caller's."""
    copy = None if given is None else _copy_of(given, sizes)
    if copy is not None:
        _wait_for(copy)
        return given, _NO_FALLBACK
    copy_ctx = ctx.replace(avals_in=[ctx.avals_in[2]], avals_out=[aval])
    (own,) = jax.ffi.ffi_lowering(_COPY)(copy_ctx, sizes)
    return own, _NO_TICKET if given is None else _NOT_FOLLOWED


def _through_barriers(value):
    while True:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return value, None
        operation = owner.operation
        if operation.name != "stablehlo.optimization_barrier":
            return value, operation
        value = operation.operands[ir.OpResult(value).result_number]


def _copy_of(ticket, sizes):
    """The operation that copied these very sizes into the ticket, if it can be seen."""
    _, copy = _through_barriers(ticket)
    if copy is None or copy.name != "stablehlo.custom_call":
        return None
    if _target(copy) not in (_COPY, _TICKET, _COPY_UNCAPTURED):
        return None
    copied, wanted = (_through_barriers(v)[0] for v in (copy.operands[0], sizes))
    return copy if copied == wanted else None


def _target(call) -> str:
    return ir.StringAttr(call.attributes["call_target_name"]).value


def _copy_target(ctx) -> str:
    """With the event where the program's own body makes the copy. Anywhere else (in a
    branch, a loop, or a function, which a branch may call, as an exported program is)
    XLA may capture the body as that of a conditional, where CUDA allows no event: there
    the copy writes its ticket alone, until a GEMM of the same body waits for it
    (`_wait_for`)."""
    if ctx.module_context.lowering_parameters.for_export:
        return _TICKET
    parent = ir.InsertionPoint.current.block.owner
    while parent is not None:
        operation = parent.operation
        if operation.name in _CONTROL_FLOW:
            return _TICKET
        if operation.name == "func.func":
            is_main = ir.StringAttr(operation.attributes["sym_name"]).value == "main"
            return _COPY if is_main else _TICKET
        parent = operation.parent
    return _COPY
