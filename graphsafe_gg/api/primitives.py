# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The JAX primitives.

`grouped_gemm_p`: lhs (m, k), rhs (g, k, n) or (g, n, k), sizes (g,) -> (m, n).
`drhs_p`: lhs (m, k), dout (m, n), sizes (g,) -> (g, k, n).
`group_sizes_copy_p`: sizes (g,) -> ticket, the early copy.

The first two are bilinear in their float operands and each is the transpose of the
other, so every order of differentiation stays inside them. In mode "async" they take
the ticket as a fourth operand, if the caller has one. Tangents and cotangents never
do: a ticket is no residual, so the backward pass makes its own copy (XLA merges it
with the first where both stand in one computation).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphsafe_gg.api import lowering, manual_axes

grouped_gemm_p = Primitive("graphsafe_gg_grouped_gemm")
drhs_p = Primitive("graphsafe_gg_drhs")
group_sizes_copy_p = Primitive("graphsafe_gg_group_sizes_copy")


def _grouped_gemm_abstract(
    lhs, rhs, sizes, *ticket, transpose_rhs, out_dtype, mode, site
):
    n = rhs.shape[1] if transpose_rhs else rhs.shape[2]
    return manual_axes.like(lhs, (lhs.shape[0], n), out_dtype)


def _drhs_abstract(lhs, dout, sizes, *ticket, out_dtype, mode, site):
    shape = (sizes.shape[0], lhs.shape[1], dout.shape[1])
    return manual_axes.like(lhs, shape, out_dtype)


def _copy_abstract(sizes):
    return manual_axes.like(sizes, (lowering.ticket_words(sizes),), np.dtype(np.uint32))


def _grouped_gemm_transpose(
    ct, lhs, rhs, sizes, *ticket, transpose_rhs, out_dtype, mode, site
):
    """A cotangent wider than the operands is rounded once, to their type."""
    none = (None,) * len(ticket)
    if type(ct) is ad.Zero:
        return None, None, None, *none
    if ad.is_undefined_primal(lhs):
        dlhs = grouped_gemm_p.bind(
            ct.astype(rhs.dtype),
            rhs,
            sizes,
            transpose_rhs=not transpose_rhs,
            out_dtype=np.dtype(lhs.aval.dtype),
            mode=mode,
            site=site,
        )
        return dlhs, None, None, *none
    ct = ct.astype(lhs.dtype)
    first, second = (ct, lhs) if transpose_rhs else (lhs, ct)
    drhs = drhs_p.bind(
        first,
        second,
        sizes,
        out_dtype=np.dtype(rhs.aval.dtype),
        mode=mode,
        site=site,
    )
    return None, drhs, None, *none


def _drhs_transpose(ct, lhs, dout, sizes, *ticket, out_dtype, mode, site):
    """out[i] = lhs_i^T dout_i, so dlhs = dout ct^T and ddout = lhs ct, row by row."""
    none = (None,) * len(ticket)
    if type(ct) is ad.Zero:
        return None, None, None, *none
    for_lhs = ad.is_undefined_primal(lhs)
    known, unknown = (dout, lhs) if for_lhs else (lhs, dout)
    grad = grouped_gemm_p.bind(
        known,
        ct.astype(known.dtype),
        sizes,
        transpose_rhs=for_lhs,
        out_dtype=np.dtype(unknown.aval.dtype),
        mode=mode,
        site=site,
    )
    return (grad, None, None, *none) if for_lhs else (None, grad, None, *none)


def _bilinear_jvp(primitive, primals, tangents, **params):
    a, b, sizes, *ticket = primals
    da, db, *_ = tangents
    out = primitive.bind(a, b, sizes, *ticket, **params)
    terms = []
    if type(da) is not ad.Zero:
        terms.append(primitive.bind(da, b, sizes, **params))
    if type(db) is not ad.Zero:
        terms.append(primitive.bind(a, db, sizes, **params))
    if not terms:
        return out, ad.Zero.from_primal_value(out)
    return out, functools.reduce(jnp.add, terms)


def _copy_jvp(primals, tangents):
    ticket = group_sizes_copy_p.bind(*primals)
    return ticket, ad.Zero.from_primal_value(ticket)


@functools.cache
def _jitted(primitive, params):
    return jax.jit(functools.partial(primitive.bind, **dict(params)))


def _eager(primitive, *operands, **params):
    return _jitted(primitive, tuple(sorted(params.items())))(*operands)


def _no_batching(primitive, operands, dims, **params):
    raise NotImplementedError(
        "grouped_gemm: operands must not be batched by vmap; got a mapped operand. "
        "Fold the batch into the rows and the groups, or loop with lax.map."
    )


def _define(primitive, abstract, rule):
    primitive.def_impl(functools.partial(_eager, primitive))
    primitive.def_abstract_eval(abstract)
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(primitive, rule, platform=platform, cacheable=False)
    batching.primitive_batchers[primitive] = functools.partial(_no_batching, primitive)


_define(grouped_gemm_p, _grouped_gemm_abstract, lowering.grouped_gemm)
_define(drhs_p, _drhs_abstract, lowering.drhs)
_define(group_sizes_copy_p, _copy_abstract, lowering.group_sizes_copy)
for _primitive in (grouped_gemm_p, drhs_p):
    ad.primitive_jvps[_primitive] = functools.partial(_bilinear_jvp, _primitive)
ad.primitive_transposes[grouped_gemm_p] = _grouped_gemm_transpose
ad.primitive_transposes[drhs_p] = _drhs_transpose
ad.primitive_jvps[group_sizes_copy_p] = _copy_jvp
