# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Properties of every product over thousands of calls: shapes, types, layouts, sizes,
operands, transformations and modes, against float64, with NaN in all that is not owned.

On a GPU the same seeded sweep runs there.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import variants
from support.bad_sizes import HOST_ERRORS

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal, assert_close, reference_grouped_gemm

VARIANTS = variants.variants(96)
INT8_ROWS = 127  # what an int8 size holds

seeds = st.integers(0, 2**32 - 1)
patterns = st.sampled_from(variants.PATTERNS)


def example_of(index, pattern, seed):
    variant = VARIANTS[index]
    rng = np.random.default_rng(seed)
    sizes = variants.draw_sizes(rng, variant.shape, pattern)
    if variant.size_type == "int8":
        sizes = np.minimum(sizes, INT8_ROWS)
    return variant, variants.example(variant, sizes, seed)


@given(st.integers(0, len(VARIANTS) - 1), patterns, seeds)
@settings(max_examples=1200)
def test_property_products_are_right(device, index, pattern, seed):
    """Result and gradients are within the bound that k and the types give, exact zeros
    stand where they must, and NaN in other rows reaches none of them."""
    variant, arrays = example_of(index, pattern, seed)
    results = variants.run(variant, variants.poisoned(variant, arrays))
    variants.assert_right(variant, arrays, results)


@given(st.integers(0, len(VARIANTS) - 1), patterns, seeds, seeds)
@settings(max_examples=400)
def test_property_products_of_a_group_are_its_own(device, index, pattern, seed, other):
    """Another lhs, weights and cotangent in one group leave all other bits alone."""
    variant, arrays = example_of(index, pattern, seed)
    if variant.num_local == 0:
        return
    group = other % variant.num_local
    rows = variants.rows_of(arrays.sizes.astype(np.int64), arrays.offset + group)
    changed = arrays._replace(
        **{
            name: getattr(arrays, name).copy()
            for name in ("lhs", "rhs", "bias", "dout")
        }
    )
    changed.lhs[rows] = np.inf
    changed.dout[rows] = np.nan
    changed.rhs[group] = np.nan
    changed.bias[group] = np.inf
    before, after = (variants.run(variant, each) for each in (arrays, changed))
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        part = rows if i < 2 else group
        assert_bit_equal(
            np.delete(np.asarray(new), part, 0), np.delete(np.asarray(old), part, 0)
        )


@given(
    st.integers(0, len(variants.SHAPES) - 1),
    st.lists(st.integers(-3, 140), min_size=33, max_size=33),
    st.booleans(),
    seeds,
)
@settings(max_examples=300)
def test_property_products_of_bad_sizes(device, index, values, is_scaled, seed):
    """Exactly the sizes that the contract calls bad are refused; others are right."""
    shape = variants.SHAPES[index]
    sizes = np.array(values[: shape.num_groups])
    if is_scaled:
        sizes = sizes * shape.m // 4480
    variant = variants.Variant(
        shape,
        "float32",
        "float32",
        "int32",
        False,
        False,
        shape.num_groups,
        "auto",
        "none",
    )
    arrays = variants.example(variant, sizes, seed)

    def run():
        results = jax.block_until_ready(variants.run(variant, arrays))
        gg.check()
        return results

    if sizes.min() >= 0 and sizes.sum() <= shape.m:
        variants.assert_right(variant, arrays, run())
        return
    with pytest.raises((*HOST_ERRORS, gg.GroupSizesError), match="group_sizes"):
        run()


BATCH = 3
MAPPED = [(a, b, c) for a in (0, None) for b in (0, None) for c in (0, None)][:-1]


@jax.jit
def _mapped(lhs, rhs, sizes):
    axes = (0 if lhs.ndim == 3 else None, 0 if rhs.ndim == 4 else None)
    axes = (*axes, 0 if sizes.ndim == 2 else None)
    return jax.vmap(gg.grouped_gemm, axes)(lhs, rhs, sizes)


@given(
    st.sampled_from(MAPPED),
    st.sampled_from([variants.SHAPES[i] for i in (1, 5)]),
    st.sampled_from(variants.DTYPES),
    patterns,
    seeds,
)
@settings(max_examples=300)
def test_property_products_under_vmap(device, axes, shape, dtype, pattern, seed):
    """Each entry is the call on its own operands."""
    rng = np.random.default_rng(seed)
    sizes = np.stack(
        [variants.draw_sizes(rng, shape, pattern) for _ in range(BATCH)]
    ).astype(np.int32)
    m, k, n, num_groups = shape
    arrays = [
        rng.standard_normal((BATCH, *each), np.float32).astype(dtype)
        for each in ((m, k), (num_groups, k, n))
    ]
    operands = [
        a if axis == 0 else a[0] for a, axis in zip((*arrays, sizes), axes, strict=True)
    ]
    out = _mapped(*operands)
    for b in range(BATCH):
        own = [a[b] if axis == 0 else a for a, axis in zip(operands, axes, strict=True)]
        assert_close(out[b], reference_grouped_gemm(*own))
        np.testing.assert_array_equal(np.asarray(out[b])[own[2].sum() :], 0)
