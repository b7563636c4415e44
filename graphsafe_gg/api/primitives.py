# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The two JAX primitives. Both are bilinear in their float operands, and each is the
transpose of the other, so every order of differentiation stays inside them.

`grouped_gemm_p`: lhs (m, k), rhs (g, k, n) or (g, n, k), sizes (g,) -> (m, n).
`drhs_p`: lhs (m, k), dout (m, n), sizes (g,) -> (g, k, n).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphsafe_gg import _ffi

grouped_gemm_p = Primitive("graphsafe_gg_grouped_gemm")
drhs_p = Primitive("graphsafe_gg_drhs")


def _varying_axes(*operands):
    """The manual mesh axes a result varies over, inside shard_map."""
    return frozenset().union(*(getattr(x, "vma", frozenset()) for x in operands))


def _result(shape, dtype, *operands):
    axes = _varying_axes(*operands)
    return jax.core.ShapedArray(shape, dtype, **({"vma": axes} if axes else {}))


def _grouped_gemm_abstract(lhs, rhs, sizes, *, transpose_rhs, out_dtype, mode, site):
    n = rhs.shape[1] if transpose_rhs else rhs.shape[2]
    return _result((lhs.shape[0], n), out_dtype, lhs, rhs, sizes)


def _drhs_abstract(lhs, dout, sizes, *, out_dtype, mode, site):
    shape = (sizes.shape[0], lhs.shape[1], dout.shape[1])
    return _result(shape, out_dtype, lhs, dout, sizes)


def _grouped_gemm_lowering(
    ctx, lhs, rhs, sizes, *, transpose_rhs, out_dtype, mode, site
):
    rule = jax.ffi.ffi_lowering(_ffi.target_name("grouped_gemm", mode))
    return rule(
        ctx, lhs, rhs, sizes, transpose_rhs=transpose_rhs, site=np.int64(site)
    )


def _drhs_lowering(ctx, lhs, dout, sizes, *, out_dtype, mode, site):
    rule = jax.ffi.ffi_lowering(_ffi.target_name("drhs", mode))
    return rule(ctx, lhs, dout, sizes, site=np.int64(site))


def _operand_grads(lhs, rhs, sizes, ct, *, transpose_rhs, mode, site):
    """The transpose of grouped_gemm in one of its operands, the one that is unknown.

    A cotangent wider than the operands is rounded once, to their type.
    """
    if ad.is_undefined_primal(lhs):
        return (
            grouped_gemm_p.bind(
                ct.astype(rhs.dtype),
                rhs,
                sizes,
                transpose_rhs=not transpose_rhs,
                out_dtype=np.dtype(lhs.aval.dtype),
                mode=mode,
                site=site,
            ),
            None,
            None,
        )
    a, b = lhs, ct.astype(lhs.dtype)
    first, second = (b, a) if transpose_rhs else (a, b)
    drhs = drhs_p.bind(
        first,
        second,
        sizes,
        out_dtype=np.dtype(rhs.aval.dtype),
        mode=mode,
        site=site,
    )
    return None, drhs, None


def _grouped_gemm_transpose(
    ct, lhs, rhs, sizes, *, transpose_rhs, out_dtype, mode, site
):
    if type(ct) is ad.Zero:
        return None, None, None
    return _operand_grads(
        lhs, rhs, sizes, ct, transpose_rhs=transpose_rhs, mode=mode, site=site
    )


def _drhs_transpose(ct, lhs, dout, sizes, *, out_dtype, mode, site):
    if type(ct) is ad.Zero:
        return None, None, None
    # out[i] = lhs_i^T dout_i: dlhs = dout ct^T and ddout = lhs ct, row by row.
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
    return (grad, None, None) if for_lhs else (None, grad, None)


def _bilinear_jvp(primitive, primals, tangents, **params):
    a, b, sizes = primals
    da, db, _ = tangents
    out = primitive.bind(a, b, sizes, **params)
    terms = []
    if type(da) is not ad.Zero:
        terms.append(primitive.bind(da, b, sizes, **params))
    if type(db) is not ad.Zero:
        terms.append(primitive.bind(a, db, sizes, **params))
    if not terms:
        return out, jnp.zeros_like(out)
    return out, functools.reduce(jnp.add, terms)


@functools.lru_cache(maxsize=None)
def _jitted(primitive, params):
    return jax.jit(functools.partial(primitive.bind, **dict(params)))


def _eager(primitive, *operands, **params):
    return _jitted(primitive, tuple(sorted(params.items())))(*operands)


def _no_batching(primitive, operands, dims, **params):
    raise NotImplementedError(
        "grouped_gemm: operands must not be batched by vmap; got a mapped operand. "
        "Fold the batch into the rows and the groups, or loop with lax.map."
    )


def _define(primitive, abstract, lowering, transpose):
    primitive.def_impl(functools.partial(_eager, primitive))
    primitive.def_abstract_eval(abstract)
    for platform in ("cpu", "cuda"):
        mlir.register_lowering(primitive, lowering, platform=platform)
    ad.primitive_jvps[primitive] = functools.partial(_bilinear_jvp, primitive)
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = functools.partial(_no_batching, primitive)


_define(
    grouped_gemm_p,
    _grouped_gemm_abstract,
    _grouped_gemm_lowering,
    _grouped_gemm_transpose,
)
_define(drhs_p, _drhs_abstract, _drhs_lowering, _drhs_transpose)
