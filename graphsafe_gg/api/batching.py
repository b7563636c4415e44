# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""vmap: a batch of products is one product. No weight is copied, nothing loops.

Shared weights and sizes: row r of all entries stand together, sizes times batch.
Shared weights, mapped sizes: rows in the order of groups (`row_order.py`).
Mapped weights: batch times g groups, rows in the order of entries.
Weight gradients: lhs or dout alone give batch times k or n columns; both, or mapped
sizes, batch times g groups.

A copy of the sizes is of no use to a rewritten call: it makes its own. A bad
group_offset is reported by a call of its own. design/vmap.md.
"""

from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from graphsafe_gg._errors import message
from graphsafe_gg.api import lowering
from graphsafe_gg.api.operands import OptionalOperands, unpack
from graphsafe_gg.api.row_order import clip_sizes, order_rows, row_dtype


def batch_grouped_gemm(bind, operands, dims, **params):
    """`bind` binds the primitive."""
    batch = _batch_size(operands, dims)
    operands = _batch_first(operands, dims)
    (lhs, rhs, sizes), dims = operands[:3], [dim is not None for dim in dims]
    rest = unpack(params["optional"], operands[3:])._replace(ticket=None)
    is_batched = unpack(params["optional"], dims[3:])
    has_layers = rest.layer is not None or params["layer"] >= 0
    if is_batched.layer or (has_layers and (dims[1] or is_batched.bias)):
        _refuse_layers()
    if is_batched.bias and not dims[1]:
        return _with_batched_bias(bind, operands, dims, rest, batch, params), 0
    has_batched_sizes = dims[2] or bool(is_batched.group_offset)
    if not dims[1] and not has_batched_sizes:
        return _interleave(bind, lhs, rhs, sizes, rest, batch, params)
    lhs = lhs if dims[0] else _repeat(lhs, batch)
    sizes = sizes if dims[2] else _repeat(sizes, batch)
    num_groups = rhs.shape[-3]
    order = _order(
        sizes, rest, is_batched, params, num_groups, lhs.shape[1], by_group=not dims[1]
    )
    if rest.group_offset is not None:
        weights = jnp.zeros((num_groups, 1, 1), lhs.dtype)
        options = {**params, "layer": -1}
        order = _checked(bind, order, sizes, rest.group_offset, weights, options)
    bias = rest.bias
    if dims[1]:
        rhs = _merge(rhs)
        if bias is not None:
            bias = bias if is_batched.bias else _repeat(bias, batch)
            bias = _merge(bias)
    one = OptionalOperands(bias=bias, layer=rest.layer)
    out = bind(
        order.gather(lhs),
        rhs,
        order.sizes,
        *one.present(),
        **{**params, "optional": one.bits, "group_offset": 0},
    )
    return order.scatter(out), 0


def batch_drhs(bind, operands, dims, **params):
    batch = _batch_size(operands, dims)
    operands = _batch_first(operands, dims)
    (lhs, dout, sizes), dims = operands[:3], [dim is not None for dim in dims]
    rest = unpack(params["optional"], operands[3:])._replace(ticket=None)
    is_batched = unpack(params["optional"], dims[3:])
    num_groups = params["num_groups"]
    if not (dims[2] or is_batched.group_offset or (dims[0] and dims[1])):
        k, n = lhs.shape[-1], dout.shape[-1]
        out = bind(
            _columns(lhs) if dims[0] else lhs,
            _columns(dout) if dims[1] else dout,
            sizes,
            *rest.present(),
            **{**params, "optional": rest.bits},
        )
        if dims[0]:
            return out.reshape(num_groups, batch, k, n), 1
        return out.reshape(num_groups, k, batch, n), 2
    lhs, dout, sizes = (
        operand if dim else _repeat(operand, batch)
        for operand, dim in zip((lhs, dout, sizes), dims, strict=False)
    )
    order = _order(
        sizes, rest, is_batched, params, num_groups, lhs.shape[1], by_group=False
    )
    if rest.group_offset is not None:
        column = jnp.zeros((1, 1), lhs.dtype)
        order = _checked(bind, order, sizes, rest.group_offset, column, params)
    out = bind(
        order.gather(lhs),
        order.gather(dout),
        order.sizes,
        **{
            **params,
            "optional": 0,
            "group_offset": 0,
            "num_groups": batch * num_groups,
        },
    )
    return out.reshape(batch, num_groups, *out.shape[1:]), 0


def batch_copy(operands, dims):
    """No call can use the ticket of a vmapped copy, so none is made."""
    sizes = _batch_first(operands, dims)[0]
    one = jax.ShapeDtypeStruct(sizes.shape[1:], sizes.dtype)
    words = lowering.ticket_words(one)
    return jnp.zeros((sizes.shape[0], words), np.uint32), 0


def _interleave(bind, lhs, rhs, sizes, rest, batch, params):
    m, n = lhs.shape[1], rhs.shape[-2 if params["transpose_rhs"] else -1]
    # A bad size stays bad, and its product with the batch in range.
    clipped = clip_sizes(sizes, -1, m + 1)
    out = bind(
        _merge(jnp.swapaxes(lhs, 0, 1)),
        rhs,
        clipped.astype(row_dtype((m + 1) * batch)) * batch,
        *rest.present(),
        **{**params, "optional": rest.bits},
    )
    return out.reshape(m, batch, n), 1


def _with_batched_bias(bind, operands, dims, rest, batch, params):
    """The rows of the bias are a batch of products with a column of ones, added in
    float32 before the one rounding."""
    lhs, rhs, sizes = operands[:3]
    is_batched = unpack(params["optional"], dims[3:])
    out_dtype = params["out_dtype"]
    wide = {**params, "out_dtype": np.dtype(np.float32)}

    def call(lhs, rhs, sizes, offset, **options):
        one = OptionalOperands(group_offset=offset)
        return bind(
            lhs, rhs, sizes, *one.present(), **{**wide, **options, "optional": one.bits}
        )

    def product(lhs, bias, sizes, offset):
        ones = jnp.ones_like(lhs, shape=(lhs.shape[0], 1))
        rows = call(ones, bias[:, None], sizes, offset, transpose_rhs=False)
        return (call(lhs, rhs, sizes, offset) + rows).astype(out_dtype)

    axes = [0 if dim else None for dim in (dims[0], is_batched.bias, dims[2])]
    offset_axis = 0 if is_batched.group_offset else None
    return jax.vmap(product, in_axes=(*axes, offset_axis), axis_size=batch)(
        lhs, rest.bias, sizes, rest.group_offset
    )


def _order(sizes, rest, is_batched, params, num_groups, m, *, by_group):
    first = None
    batch = sizes.shape[0]
    if rest.group_offset is not None:
        first = rest.group_offset
        first = first.reshape(batch) if is_batched.group_offset else first.reshape(1)
        first = jnp.broadcast_to(first, (batch,))
    elif params["group_offset"] >= 0:
        first = jnp.full((batch,), params["group_offset"], np.int32)
    return order_rows(sizes, first, num_groups, m, by_group=by_group)


def _checked(bind, order, sizes, offsets, second, params):
    """The order, once a product without rows has taken the first bad offset there is.

    Its zeros join the sizes of the one product, so that XLA keeps it.
    """
    num_sizes = sizes.shape[1]
    offsets = offsets.reshape(-1)
    if offsets.dtype.itemsize < 4:  # which may not hold the limit
        offsets = offsets.astype(np.int32)
    if not offsets.size:
        return order
    limit = num_sizes - params.get("num_groups", second.shape[0])
    is_bad = (offsets < 0) | (offsets > limit)
    one = OptionalOperands(group_offset=offsets[jnp.argmax(is_bad)])
    zeros = bind(
        jnp.zeros((1, 1), second.dtype),
        second,
        jnp.zeros((num_sizes,), np.int32),
        *one.present(),
        **{**params, "optional": one.bits},
    )
    return order._replace(sizes=order.sizes + jnp.sum(zeros).astype(order.sizes.dtype))


def _refuse_layers() -> NoReturn:
    raise NotImplementedError(
        message(
            "grouped_gemm",
            "layer",
            "be shared, and index a shared stack, under vmap",
            "a batched layer or stack",
            "Take the layer's weights first: jnp.take(rhs, layer, axis=0).",
        )
    )


def _batch_size(operands, dims) -> int:
    return next(
        x.shape[dim] for x, dim in zip(operands, dims, strict=True) if dim is not None
    )


def _batch_first(operands, dims) -> list:
    return [
        x if dim is None else jnp.moveaxis(x, dim, 0)
        for x, dim in zip(operands, dims, strict=True)
    ]


def _repeat(operand, batch: int):
    return jnp.broadcast_to(operand[None], (batch, *operand.shape))


def _columns(rows):
    """(batch, m, x) -> (m, batch * x)."""
    batch, m, x = rows.shape
    return jnp.swapaxes(rows, 0, 1).reshape(m, batch * x)


def _merge(operand):
    """The first two axes as one. No -1: any axis may be empty."""
    a, b, *rest = operand.shape
    return operand.reshape(a * b, *rest)
