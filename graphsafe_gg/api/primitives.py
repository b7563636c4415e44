# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The JAX primitives.

`grouped_gemm_p`: lhs (m, k), rhs (g, k, n) or (g, n, k), sizes (g,) -> (m, n).
`drhs_p`: lhs (m, k), dout (m, n), sizes (g,) -> (num_groups, k, n).
`group_sizes_copy_p`: sizes (g,) -> ticket, the early copy.

The first two are bilinear in their float operands and each is the transpose of the
other, so every order of differentiation stays inside them. Further operands are those
of `operands.py`, as the parameter `optional` says. A bias is a term of its own: its
tangent is a product with a column of ones. Tangents and cotangents never take a
ticket: it is no residual, so the backward pass makes its own copy (XLA merges it with
the first where both stand in one computation).
"""

import functools
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir
from jax.interpreters import batching as jax_batching

from graphsafe_gg import _config
from graphsafe_gg.api import batching, disabled, lowering, manual_axes, shard_plan
from graphsafe_gg.api.operands import unpack

grouped_gemm_p = Primitive("graphsafe_gg_grouped_gemm")
drhs_p = Primitive("graphsafe_gg_drhs")
group_sizes_copy_p = Primitive("graphsafe_gg_group_sizes_copy")


def _grouped_gemm_abstract(lhs, rhs, sizes, *_, transpose_rhs, out_dtype, **params):
    n_axis = -2 if transpose_rhs else -1
    rows, weights = map(manual_axes.explicit_axes, (lhs, rhs))
    shard_plan.check_explicit("lhs", rows[:1], "m")
    shard_plan.check_explicit("rhs", weights[:-2], "lg"[-len(weights[:-2]) :])
    shape, spec = (lhs.shape[0], rhs.shape[n_axis]), (None, weights[n_axis])
    return manual_axes.like(lhs, shape, out_dtype, spec)


def _drhs_abstract(lhs, dout, sizes, *_, num_groups, out_dtype, **params):
    rows, cotangent = map(manual_axes.explicit_axes, (lhs, dout))
    shard_plan.check_explicit("lhs", rows[:1], "m")
    shard_plan.check_explicit("dout", cotangent[:1], "m")
    shape = (num_groups, lhs.shape[1], dout.shape[1])
    return manual_axes.like(lhs, shape, out_dtype, (None, rows[1], cotangent[1]))


def _copy_abstract(sizes):
    return manual_axes.like(sizes, (lowering.ticket_words(sizes),), np.dtype(np.uint32))


def _grouped_gemm_transpose(ct, lhs, rhs, sizes, *rest, **params):
    """A cotangent wider than the operands is rounded once, to their type."""
    if type(ct) is ad.Zero:
        return [None] * (3 + len(rest))
    given = unpack(params["optional"], rest)
    optional = given.linear()
    transpose_rhs, layer = params.pop("transpose_rhs"), params.pop("layer")
    params = {**params, "optional": optional.bits}
    drest = [
        _bias_transpose(ct, operand, sizes, optional, params)
        if operand is given.bias and ad.is_undefined_primal(operand)
        else None
        for operand in rest
    ]
    if ad.is_undefined_primal(lhs):
        dlhs = grouped_gemm_p.bind(
            ct.astype(rhs.dtype),
            rhs,
            sizes,
            *optional.present(),
            **{**params, "out_dtype": np.dtype(lhs.aval.dtype)},
            transpose_rhs=not transpose_rhs,
            layer=layer,
        )
        return [dlhs, None, None, *drest]
    if not ad.is_undefined_primal(rhs):
        return [None, None, None, *drest]
    if rhs.aval.ndim == 4:
        raise_stacked_gradient()
    ct = ct.astype(lhs.dtype)
    first, second = (ct, lhs) if transpose_rhs else (lhs, ct)
    drhs = drhs_p.bind(
        first,
        second,
        sizes,
        *optional.present(),
        **{**params, "out_dtype": np.dtype(rhs.aval.dtype)},
        num_groups=rhs.aval.shape[0],
    )
    return [None, drhs, None, *drest]


def _bias_transpose(ct, bias, sizes, optional, params):
    """A column of ones, contracted with the rows. Only `jax.linear_transpose` asks."""
    if bias.aval.ndim == 3:
        raise_stacked_gradient("bias")
    ct = ct.astype(bias.aval.dtype)
    dbias = drhs_p.bind(
        jnp.ones_like(ct, shape=(ct.shape[0], 1)),
        ct,
        sizes,
        *optional.present(),
        **{**params, "out_dtype": np.dtype(bias.aval.dtype)},
        num_groups=bias.aval.shape[0],
    )
    return dbias.reshape(bias.aval.shape)


def _drhs_transpose(ct, lhs, dout, sizes, *rest, **params):
    """out[i] = lhs_i^T dout_i, so dlhs = dout ct^T and ddout = lhs ct, row by row."""
    if type(ct) is ad.Zero:
        return [None] * (3 + len(rest))
    optional = unpack(params["optional"], rest).linear()
    params.pop("num_groups")
    for_lhs = ad.is_undefined_primal(lhs)
    known, unknown = (dout, lhs) if for_lhs else (lhs, dout)
    out_dtype = np.dtype(unknown.aval.dtype)
    grad = grouped_gemm_p.bind(
        known,
        ct.astype(known.dtype),
        sizes,
        *optional.present(),
        **{**params, "optional": optional.bits, "out_dtype": out_dtype},
        transpose_rhs=for_lhs,
        layer=-1,
    )
    grads = [grad, None] if for_lhs else [None, grad]
    return [*grads, None] + [None] * len(rest)


def _grouped_gemm_jvp(primals, tangents, **params):
    _, rhs, _, *rest = primals
    _, drhs, _, *drest = tangents
    if rhs.ndim == 4 and type(drhs) is not ad.Zero:
        raise_stacked_gradient()
    out, terms = _bilinear_jvp(grouped_gemm_p, primals, tangents, params)
    dbias = unpack(params["optional"], drest).bias
    if dbias is not None and type(dbias) is not ad.Zero:
        if params["layer"] >= 0 or unpack(params["optional"], rest).layer is not None:
            raise_stacked_gradient("bias")
        terms.append(_rows_of(dbias, primals, params))
    return out, _sum(terms, out)


def _rows_of(bias, primals, params):
    """The row of bias of each row's group, zeros for a row without: a product with a
    column of ones."""
    lhs, _, sizes, *rest = primals
    optional = unpack(params["optional"], rest).linear()
    ones = jnp.ones_like(lhs, shape=(lhs.shape[0], 1))
    return grouped_gemm_p.bind(
        ones,
        bias[:, None, :],
        sizes,
        *optional.present(),
        **{**params, "optional": optional.bits, "transpose_rhs": False},
    )


def _drhs_jvp(primals, tangents, **params):
    out, terms = _bilinear_jvp(drhs_p, primals, tangents, params)
    return out, _sum(terms, out)


def _bilinear_jvp(primitive, primals, tangents, params):
    """The value, and its derivative's terms in the first two operands."""
    a, b, sizes, *rest = primals
    da, db, *_ = tangents
    optional = unpack(params["optional"], rest).linear()
    linear = {**params, "optional": optional.bits}
    terms = [
        primitive.bind(*pair, sizes, *optional.present(), **linear)
        for pair, tangent in (((da, b), da), ((a, db), db))
        if type(tangent) is not ad.Zero
    ]
    return primitive.bind(*primals, **params), terms


def _sum(terms, out):
    if not terms:
        return ad.Zero.from_primal_value(out)
    return functools.reduce(jnp.add, terms)


def raise_stacked_gradient(operand: str = "rhs") -> NoReturn:
    raise NotImplementedError(
        f"grouped_gemm: {operand} must not be stacked over layers where it is "
        "differentiated; got layer=. Its gradient would be a whole stack for every "
        "layer: pass the slices as scan inputs instead."
    )


def _copy_jvp(primals, tangents):
    ticket = group_sizes_copy_p.bind(*primals)
    return ticket, ad.Zero.from_primal_value(ticket)


@functools.cache
def _jitted(primitive, params):
    return jax.jit(functools.partial(primitive.bind, **dict(params)))


def _eager(primitive, *operands, **params):
    # Under jax.disable_jit the jitted function would come back here.
    with jax.disable_jit(False):
        return _jitted(primitive, tuple(sorted(params.items())))(*operands)


def _define(primitive, abstract, rule):
    primitive.def_impl(functools.partial(_eager, primitive))
    primitive.def_abstract_eval(abstract)
    # One rule for all platforms: an export for several then has one call, no switch.
    mlir.register_lowering(primitive, rule, cacheable=False)


_rules = disabled if _config.DISABLED else lowering
_define(grouped_gemm_p, _grouped_gemm_abstract, _rules.grouped_gemm)
_define(drhs_p, _drhs_abstract, _rules.drhs)
_define(group_sizes_copy_p, _copy_abstract, _rules.group_sizes_copy)
ad.primitive_jvps[grouped_gemm_p] = _grouped_gemm_jvp
ad.primitive_jvps[drhs_p] = _drhs_jvp
ad.primitive_transposes[grouped_gemm_p] = _grouped_gemm_transpose
ad.primitive_transposes[drhs_p] = _drhs_transpose
ad.primitive_jvps[group_sizes_copy_p] = _copy_jvp
jax_batching.primitive_batchers[grouped_gemm_p] = functools.partial(
    batching.batch_grouped_gemm, grouped_gemm_p.bind
)
jax_batching.primitive_batchers[drhs_p] = functools.partial(
    batching.batch_drhs, drhs_p.bind
)
jax_batching.primitive_batchers[group_sizes_copy_p] = batching.batch_copy
