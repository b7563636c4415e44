# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`jax.lax.ragged_dot` and `ragged_dot_general` by grouped products."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from graphsafe_gg._errors import message
from graphsafe_gg.api.grouped_gemm import grouped_gemm
from graphsafe_gg.api.weight_gradient import weight_gradient

_BASIC = jax.lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(((1,), (1,)), ((), ())),
    lhs_ragged_dimensions=[0],
    rhs_group_dimensions=[0],
)

_NO_MESH = jax.sharding.AbstractMesh((), ())


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision=None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding=None,
) -> jax.Array:
    """`jax.lax.ragged_dot`, with its signature and meaning.

    Args:
      lhs: (m, k).
      rhs: (g, k, n).
      group_sizes: (g,), any integer dtype.
      precision, preferred_element_type: as for ``jax.lax.dot``. Mixed operand types
        promote as they do there; these and float8 are cast first, which copies them.
      group_offset: integer, scalar or (1,): group_sizes has all groups, and rhs those
        from this one on. (lax documents it, and does not implement it.)
      out_sharding: None. Constrain the result instead.

    Returns:
      (m, n), of the dtype that lax gives.

    Raises:
      TypeError: as lax, for shapes and types that it refuses too.
      NotImplementedError: float64, complex and pairs of integer types; a precision
        preset that is not built; out_sharding.

    What differs from lax: a negative size, or a sum above m, is an error (lax counts
    rows from a negative position, or cuts the last group). On a GPU it is recorded for
    ``check()``, a negative size then counts as 0. design/ragged_dot.md.

    Transformations, graph safety, cost: as `grouped_gemm` in mode "auto".
    """
    return ragged_dot_general(
        lhs,
        rhs,
        group_sizes,
        _BASIC,
        precision,
        preferred_element_type,
        group_offset,
        out_sharding,
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: jax.lax.RaggedDotDimensionNumbers,
    precision=None,
    preferred_element_type: DTypeLike | None = None,
    group_offset: ArrayLike | None = None,
    out_sharding=None,
) -> jax.Array:
    """`jax.lax.ragged_dot_general`, with its signature and meaning.

    Its three products, by the kind of the ragged dimension of lhs:

    * noncontracting: ``[b...,m...,k...], [g,b...,k...,n...] -> [b...,m...,n...]``, a
      grouped GEMM; batch dimensions, and m dimensions beside the ragged one, join it
      as under vmap.
    * contracting: ``[b...,m...,k...], [b...,k...,n...] -> [g,b...,m...,n...]``, the
      weight gradient; products over further contracting dimensions are added in
      float32.
    * batch: ``[b...,m...,k...], [b...,k...,n...] -> [b...,m...,n...]`` is lax's own:
      there is nothing to group.

    Arguments, errors and differences are those of `ragged_dot`; group_offset is for the
    first product alone. Operands whose dimensions are in another order than above are
    transposed, except weights whose contracting dimensions come last.
    """
    op = "ragged_dot"
    lhs, rhs, sizes = jnp.asarray(lhs), jnp.asarray(rhs), jnp.asarray(group_sizes)
    if out_sharding is not None:
        advice = "Use jax.lax.with_sharding_constraint on the result."
        text = message(op, "out_sharding", "be None", out_sharding, advice)
        raise NotImplementedError(text)
    plan = _plan(lhs, rhs, ragged_dot_dimension_numbers)
    lax_dot = functools.partial(
        jax.lax.ragged_dot_general,
        ragged_dot_dimension_numbers=ragged_dot_dimension_numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
    out = _as_lax_would(lax_dot, plan, lhs, rhs, sizes, group_offset)
    if plan.kind == "batch":
        return lax_dot(lhs, rhs, sizes)
    if group_offset is not None and plan.kind != "noncontracting":
        rule, advice = (
            "come with a ragged noncontracting dimension",
            "Slice the result.",
        )
        text = message(op, "group_offset", rule, f"a ragged {plan.kind} one", advice)
        raise NotImplementedError(text)
    lhs, rhs = _common_type(op, lhs, rhs)
    options = {"precision": precision, "group_offset": group_offset, "name": None}
    product = _noncontracting if plan.kind == "noncontracting" else _contracting
    dtype = np.dtype(np.float32) if out.dtype.itemsize == 1 else out.dtype
    return product(plan, lhs, rhs, sizes, dtype, options).astype(out.dtype)


class _Plan(NamedTuple):
    """The dimensions of both operands by what they are. `outer` and `inner` stand
    beside the ragged dimension among its kind, in front of it and behind it."""

    kind: str
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]
    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    group: tuple[int, ...]
    ragged: int
    outer: tuple[int, ...]
    inner: tuple[int, ...]

    @property
    def lead(self) -> tuple[tuple[int, ...], ...]:
        """Dimensions of lhs that make it a batch of products."""
        return self.lhs_batch, self.outer, self.inner


def _plan(lhs, rhs, numbers) -> _Plan:
    contracting, batch = numbers.dot_dimension_numbers
    ragged = numbers.lhs_ragged_dimensions[0] if numbers.lhs_ragged_dimensions else -1
    group = tuple(numbers.rhs_group_dimensions)
    lhs_free = _remaining(lhs.ndim, (*contracting[0], *batch[0]))
    kind, among = "noncontracting", lhs_free
    if ragged in contracting[0]:
        kind, among = "contracting", tuple(contracting[0])
    elif ragged in batch[0]:
        kind, among = "batch", tuple(batch[0])
    at = among.index(ragged) if ragged in among else 0
    return _Plan(
        kind,
        tuple(batch[0]),
        tuple(batch[1]),
        tuple(contracting[0]),
        tuple(contracting[1]),
        lhs_free,
        _remaining(rhs.ndim, (*contracting[1], *batch[1], *group)),
        group,
        ragged,
        among[:at],
        among[at + 1 :],
    )


def _as_lax_would(lax_dot, plan, lhs, rhs, sizes, group_offset):
    """Shape and type of lax's result. Raises what lax raises."""
    shape = sizes.shape
    if group_offset is not None and plan.kind == "noncontracting" and plan.group:
        shape = (*shape[:-1], rhs.shape[plan.group[0]])
    types = ((lhs.shape, lhs.dtype), (rhs.shape, rhs.dtype), (shape, sizes.dtype))
    # lax has no rule for explicit mesh axes; shapes and types do not need one.
    with jax.sharding.use_abstract_mesh(_NO_MESH):
        return jax.eval_shape(lax_dot, *(jax.ShapeDtypeStruct(*t) for t in types))


def _common_type(op: str, lhs, rhs):
    """Both in a type that holds either's floats exactly; integers become float32."""
    dtypes = [x.dtype for x in (lhs, rhs)]
    floats = [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.floating)]
    if dtypes[0] == dtypes[1] and floats and dtypes[0].itemsize > 1:
        return lhs, rhs
    if not floats or any(dtype.kind == "c" for dtype in dtypes):
        got = " and ".join(map(str, dtypes))
        advice = "Use jax.lax.ragged_dot, or cast them."
        text = message(op, "lhs or rhs", "be floating-point", got, advice)
        raise NotImplementedError(text)
    common = np.dtype(np.float32)
    if any(dtype.itemsize > common.itemsize for dtype in floats):
        common = max(floats, key=lambda dtype: dtype.itemsize)
    return lhs.astype(common), rhs.astype(common)


def _noncontracting(plan, lhs, rhs, sizes, dtype, options):
    lead = [_shape(lhs, dims) for dims in plan.lead]
    rows, columns = lhs.shape[plan.ragged], _shape(rhs, plan.rhs_free)
    lhs = jnp.transpose(lhs, (*sum(plan.lead, ()), plan.ragged, *plan.lhs_contracting))
    k = math.prod(_shape(rhs, plan.rhs_contracting))
    lhs = lhs.reshape(*_counts(lead), rows, k)
    is_transposed = _ends_with_contracting(plan, rhs.ndim)
    matrix = (plan.rhs_contracting, plan.rhs_free)
    matrix = matrix[::-1] if is_transposed else matrix
    num_groups = rhs.shape[plan.group[0]]
    rhs = jnp.transpose(rhs, (*plan.rhs_batch, *plan.group, *sum(matrix, ())))
    n = math.prod(columns)
    rhs_shape = (num_groups, n, k) if is_transposed else (num_groups, k, n)
    rhs = rhs.reshape(*_counts(lead[:1]), *rhs_shape)

    def call(lhs, rhs, sizes):
        return grouped_gemm(
            lhs,
            rhs,
            sizes,
            transpose_rhs=is_transposed,
            preferred_element_type=dtype,
            **options,
        )

    out = _mapped(call, lead, sizes, rhs_axes=(0, None, None))(lhs, rhs)
    out = out.reshape(*sum(lead, ()), rows, *columns)
    behind_outer = len(lead[0]) + len(lead[1])
    return jnp.moveaxis(out, behind_outer + len(lead[2]), behind_outer)


def _contracting(plan, lhs, rhs, sizes, dtype, options):
    lead = [_shape(lhs, dims) for dims in plan.lead]
    rows = lhs.shape[plan.ragged]
    m, n = _shape(lhs, plan.lhs_free), _shape(rhs, plan.rhs_free)
    position = plan.lhs_contracting.index
    order = (*plan.outer, *plan.inner, plan.ragged)
    lhs = jnp.transpose(lhs, (*plan.lhs_batch, *order, *plan.lhs_free))
    order = tuple(plan.rhs_contracting[position(dim)] for dim in order)
    rhs = jnp.transpose(rhs, (*plan.rhs_batch, *order, *plan.rhs_free))
    lhs = lhs.reshape(*_counts(lead), rows, math.prod(m))
    rhs = rhs.reshape(*_counts(lead), rows, math.prod(n))
    num_sums = len(_counts(lead[1:]))

    def call(lhs, rhs, sizes):
        return weight_gradient(
            lhs,
            rhs,
            sizes,
            preferred_element_type=np.float32 if num_sums else dtype,
            precision=options["precision"],
        )

    out = _mapped(call, lead, sizes, rhs_axes=(0, 0, 0))(lhs, rhs)
    num_batch = len(_counts(lead[:1]))
    out = jnp.sum(out, axis=tuple(range(num_batch, num_batch + num_sums))).astype(dtype)
    out = jnp.moveaxis(out, num_batch, 0)
    return out.reshape(out.shape[0], *lead[0], *m, *n)


def _counts(lead) -> list[int]:
    """The length of each kind of leading dimension that is there."""
    return [math.prod(shape) for shape in lead if shape]


def _mapped(call, lead, sizes, rhs_axes):
    """The call for every batch, outer and inner index of lhs; sizes have the first two,
    or none of them."""
    prefix = None
    if sizes.ndim > 1:
        sizes, prefix = sizes.reshape(*_counts(lead[:2]), sizes.shape[-1]), 0
    kinds = zip(lead, rhs_axes, (prefix, prefix, None), strict=True)
    for shape, rhs_axis, sizes_axis in reversed(list(kinds)):
        if shape:
            call = jax.vmap(call, in_axes=(0, rhs_axis, sizes_axis))
    return lambda lhs, rhs: call(lhs, rhs, sizes)


def _ends_with_contracting(plan, rank: int) -> bool:
    """Whether rhs is stored with its contracting dimensions behind the free ones."""
    stored = (*plan.rhs_batch, *plan.group, *plan.rhs_free, *plan.rhs_contracting)
    return bool(plan.rhs_contracting) and stored == tuple(range(rank))


def _shape(array, dims) -> tuple[int, ...]:
    return tuple(array.shape[dim] for dim in dims)


def _remaining(rank: int, dims) -> tuple[int, ...]:
    return tuple(dim for dim in range(rank) if dim not in dims)
