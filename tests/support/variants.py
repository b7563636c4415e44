# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Programs for property tests: few shapes and options, so that each compiles once and
then runs with thousands of sizes and operands."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from support.operands import MODES, rows_of

import graphsafe_gg as gg
from graphsafe_gg.testing import (
    Truth,
    assert_close,
    reference_dlhs,
    reference_drhs,
    reference_grouped_gemm,
)


class Shape(NamedTuple):
    m: int
    k: int
    n: int
    num_groups: int  # of all


SHAPES = (
    Shape(1, 1, 1, 1),
    Shape(7, 3, 5, 4),
    Shape(33, 16, 24, 6),
    Shape(40, 33, 65, 3),
    Shape(64, 0, 8, 5),
    Shape(130, 24, 17, 9),
    Shape(20, 130, 2, 2),
    Shape(17, 8, 8, 33),
)
DTYPES = ("bfloat16", "float16", "float32")
SIZE_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


class Variant(NamedTuple):
    """The static facts of one program."""

    shape: Shape
    dtype: str
    out_dtype: str
    size_type: str
    transpose_rhs: bool
    has_bias: bool
    num_local: int  # groups that rhs holds; all of them: no group_offset
    mode: str
    wrap: str  # transformation around the call


WRAPS = ("none", "checkpoint", "scan", "cond", "layer")


def variants(count: int, seed: int = 0) -> list[Variant]:
    """`count` programs that meet every value of every field, and most pairs."""
    rng = np.random.default_rng(seed)

    def pick(values):
        return values[rng.integers(len(values))]

    chosen = []
    for i in range(count):
        shape = SHAPES[i % len(SHAPES)]
        is_local = rng.random() < 0.35
        chosen.append(
            Variant(
                shape,
                pick(DTYPES),
                pick(DTYPES),
                pick(SIZE_TYPES),
                bool(rng.integers(2)),
                bool(rng.integers(2)),
                int(rng.integers(shape.num_groups)) if is_local else shape.num_groups,
                pick(MODES),
                WRAPS[i % len(WRAPS)],
            )
        )
    return chosen


class Example(NamedTuple):
    """Arrays of one call. `rhs` and `bias` are the local groups'."""

    lhs: np.ndarray
    rhs: np.ndarray
    bias: np.ndarray
    sizes: np.ndarray
    offset: int
    dout: np.ndarray


def draw_sizes(rng: np.random.Generator, shape: Shape, pattern: str) -> np.ndarray:
    """Good sizes; those of `padded` leave rows past the sum."""
    m, num_groups = shape.m, shape.num_groups
    if pattern == "empty":
        return np.zeros(num_groups, np.int64)
    if pattern == "one":
        sizes = np.zeros(num_groups, np.int64)
        sizes[rng.integers(num_groups)] = m
        return sizes
    total = m if pattern != "padded" else int(rng.integers(m + 1))
    concentration = 0.2 if pattern == "skewed" else 3.0
    shares = rng.dirichlet(np.full(num_groups, concentration))
    return rng.multinomial(total, shares)


PATTERNS = ("uniform", "skewed", "padded", "one", "empty")


def example(variant: Variant, sizes: np.ndarray, seed: int) -> Example:
    rng = np.random.default_rng(seed)
    m, k, n, num_groups = variant.shape
    local = variant.num_local
    inner = (n, k) if variant.transpose_rhs else (k, n)

    def normal(*shape, dtype=variant.dtype):
        return rng.standard_normal(shape, np.float32).astype(dtype)

    offset = int(rng.integers(num_groups - local + 1))
    return Example(
        normal(m, k),
        normal(local, *inner),
        normal(local, n),
        sizes.astype(variant.size_type),
        offset,
        normal(m, n, dtype=variant.out_dtype),
    )


@functools.cache
def program(variant: Variant) -> Any:
    """Result, dlhs, drhs and dbias. Rows and gradients without a bias: zeros."""
    is_local = variant.num_local < variant.shape.num_groups

    def call(lhs, rhs, bias, sizes, offset, layer):
        options = {"group_offset": offset} if is_local else {}
        if variant.wrap == "layer":
            # Two layers, of which the second is read; only lhs is differentiated.
            rhs, bias = (jnp.stack([jnp.full_like(x, 3), x]) for x in (rhs, bias))
            rhs, bias = jax.lax.stop_gradient((rhs, bias))
            options["layer"] = layer
        return gg.grouped_gemm(
            lhs,
            rhs,
            sizes,
            mode=variant.mode,
            transpose_rhs=variant.transpose_rhs,
            bias=bias if variant.has_bias else None,
            preferred_element_type=variant.out_dtype,
            name="property",
            **options,
        )

    def wrapped(lhs, rhs, bias, sizes, offset, layer):
        if variant.wrap == "checkpoint":
            return jax.checkpoint(call)(lhs, rhs, bias, sizes, offset, layer)
        if variant.wrap == "scan":

            def body(carry, _):
                return carry, call(lhs, rhs, bias, sizes, offset, layer)

            return jax.lax.scan(body, 0, None, length=1)[1][0]
        if variant.wrap == "cond":
            zeros = jnp.zeros((lhs.shape[0], bias.shape[1]), variant.out_dtype)
            return jax.lax.cond(
                layer == 1,
                lambda *operands: call(*operands, layer),
                lambda *_: zeros,
                *(lhs, rhs, bias, sizes, offset),
            )
        return call(lhs, rhs, bias, sizes, offset, layer)

    @jax.jit
    def run(lhs, rhs, bias, sizes, offset, dout):
        layer = jnp.int32(1)
        out, pullback = jax.vjp(
            lambda *operands: wrapped(*operands, sizes, offset, layer), lhs, rhs, bias
        )
        return out, *pullback(dout)

    return run


def run(variant: Variant, arrays: Example):
    return program(variant)(*arrays[:4], np.int32(arrays.offset), arrays.dout)


def truth(variant: Variant, arrays: Example) -> tuple[Truth, Truth, Truth, Truth]:
    """float64, with weights of zeros for groups that are not local."""
    sizes = arrays.sizes.astype(np.int64)
    local = slice(arrays.offset, arrays.offset + variant.num_local)
    rhs = np.zeros((len(sizes), *arrays.rhs.shape[1:]))
    rhs[local] = arrays.rhs
    options = {"transpose_rhs": variant.transpose_rhs}
    dout = arrays.dout.astype(variant.dtype)
    out = reference_grouped_gemm(arrays.lhs, rhs, sizes, **options)
    dlhs = reference_dlhs(dout, rhs, sizes, **options)
    drhs = reference_drhs(arrays.lhs, dout, sizes, **options)
    drhs = Truth(*(part[local] for part in drhs))
    ones = np.ones((len(dout), 1))
    dbias = reference_drhs(ones, dout, sizes)
    dbias = Truth(
        dbias.value[local, 0], dbias.magnitude[local, 0], dbias.num_terms[local, 0]
    )
    if variant.has_bias:
        out = _with_bias(out, arrays.bias, sizes, arrays.offset)
    zero = Truth(0.0, 0.0, 0)
    if not variant.has_bias or variant.wrap == "layer":
        dbias = zero
    return out, dlhs, zero if variant.wrap == "layer" else drhs, dbias


def _with_bias(out: Truth, bias, sizes, offset: int) -> Truth:
    value, magnitude = out.value.copy(), out.magnitude.copy()
    for i, row in enumerate(bias.astype(np.float64)):
        rows = rows_of(sizes, offset + i)
        value[rows] += row
        magnitude[rows] += abs(row)
    return Truth(value, magnitude, np.asarray(out.num_terms) + 1)


def is_owned(variant: Variant, arrays: Example) -> np.ndarray:
    """Rows of local groups: what the others hold influences nothing."""
    ends = np.cumsum(arrays.sizes.astype(np.int64))
    starts = ends - arrays.sizes
    last = arrays.offset + variant.num_local - 1
    rows = np.arange(variant.shape.m)
    if variant.num_local == 0:
        return np.zeros(len(rows), bool)
    return (rows >= starts[arrays.offset]) & (rows < ends[last])


def poisoned(variant: Variant, arrays: Example) -> Example:
    """NaN in every row without a local group."""
    alien = ~is_owned(variant, arrays)
    lhs, dout = arrays.lhs.copy(), arrays.dout.copy()
    lhs[alien], dout[alien] = np.nan, np.nan
    return arrays._replace(lhs=lhs, dout=dout)


def assert_right(variant: Variant, arrays: Example, results) -> None:
    names = ("out", "dlhs", "drhs", "dbias")
    truths = truth(variant, arrays)
    for name, got, wanted in zip(names, results, truths, strict=True):
        what = f"{name} of {variant}, sizes {arrays.sizes}, offset {arrays.offset}"
        shape = np.shape(got)
        full = (np.broadcast_to(part, shape) for part in wanted)
        assert_close(got, Truth(*full), what=what)
    alien = ~is_owned(variant, arrays)
    for name, got in zip(names[:2], results, strict=False):
        np.testing.assert_array_equal(np.asarray(got)[alien], 0, err_msg=name)
