# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Properties of `grouped_gemm` over random shapes, types, sizes and layouts.

The examples are the same at every run; GG_TEST_EXPLORE=1 draws new ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.bad_sizes import HOST_ERRORS
from support.operands import DTYPES, MODES, poison_tail, random_operands
from support.products import (
    assert_products_bit_equal,
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

axes = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 63, 65, 128, 130]))
group_sizes = st.lists(
    st.one_of(st.just(0), st.integers(0, 12), st.sampled_from([64, 65, 130])),
    max_size=12,
)


@st.composite
def calls(draw):
    """Operands, with up to 40 rows of padding, and the options of the call."""
    sizes = draw(group_sizes)
    options = {
        "mode": draw(st.sampled_from(MODES)),
        "transpose_rhs": draw(st.booleans()),
        "preferred_element_type": draw(st.sampled_from([None, *DTYPES])),
    }
    operands = random_operands(
        sizes,
        sum(sizes) + draw(st.sampled_from([0, 0, 1, 7, 40])),
        draw(axes),
        draw(axes),
        draw(st.sampled_from(DTYPES)),
        transpose_rhs=options["transpose_rhs"],
        out_dtype=options["preferred_element_type"],
        seed=draw(st.integers(0, 99)),
    )
    return operands, options


def shapes_only(call):
    operands, options = call
    return [array.shape for array in operands], options


@given(calls())
def test_grouped_gemm_property_products_are_right(device, call):
    operands, options = call
    check_products(operands, f"{shapes_only(call)} {operands.group_sizes}: ", **options)


@given(calls())
@settings(max_examples=15)
def test_grouped_gemm_property_tail_is_ignored(device, call):
    operands, options = call
    clean = run_products(*operands, **options)
    poisoned = run_products(*poison_tail(operands), **options)
    assert_products_bit_equal(poisoned, clean, f"{shapes_only(call)}: ")


@given(calls(), st.data())
@settings(max_examples=15)
def test_grouped_gemm_property_groups_are_independent(device, call, data):
    """A call with other operands in one group keeps every other group's bits."""
    operands, options = call
    sizes = operands.group_sizes
    if not len(sizes):
        return
    group = data.draw(st.integers(0, len(sizes) - 1))
    start = int(sizes[:group].sum())
    rows = np.s_[start : start + int(sizes[group])]
    lhs, rhs, dout = (
        operands.lhs.copy(),
        operands.rhs.copy(),
        operands.dout.copy(),
    )
    lhs[rows], dout[rows], rhs[group] = np.nan, np.inf, np.nan
    before = run_products(*operands, **options)
    after = run_products(lhs, rhs, sizes, dout, **options)
    for name in ("out", "dlhs", "drhs"):
        part = group if name == "drhs" else rows
        assert_bit_equal(
            np.delete(np.asarray(getattr(after, name)), part, 0),
            np.delete(np.asarray(getattr(before, name)), part, 0),
            f"{name} {shapes_only(call)} group {group}: ",
        )


@given(st.lists(st.integers(-5, 60), min_size=1, max_size=40), st.integers(0, 300))
@example([300], 299)
@example([-1, 0], 0)
@settings(max_examples=25)
def test_grouped_gemm_property_sizes_are_good_or_refused(device, sizes, m):
    """Exactly the sizes that the contract calls bad are refused, none is misread."""
    is_good = min(sizes) >= 0 and sum(sizes) <= m
    operands = random_operands(np.array(sizes, np.int32), m, 4, 8)

    def run():
        products = jax.block_until_ready(run_products(*operands, mode="device"))
        gg.check()
        return products

    if is_good:
        assert_products_close(run(), truth_of(operands))
    else:
        with pytest.raises((*HOST_ERRORS, gg.GroupSizesError), match="group_sizes"):
            run()


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from(DTYPES))
@settings(max_examples=15)
def test_grouped_gemm_property_one_group_is_a_matrix_product(device, m, k, dtype):
    """With identity weights the rows come back bit for bit."""
    lhs = random_operands([m], m, k, k, dtype).lhs
    identity = np.eye(k, dtype=dtype)[None]
    out = gg.grouped_gemm(lhs, identity, jnp.array([m], jnp.int32))
    assert_bit_equal(out, lhs)
