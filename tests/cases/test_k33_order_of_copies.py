# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K33: copies of the sizes have no side effects; order comes from data alone."""

import jax
import jax.numpy as jnp
import numpy as np
from support.operands import random_operands

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_bit_equal

SIZES = np.array([3, 0, 9, 1], np.int32)


def test_p103_equal_copies_merge_and_unused_ones_go(device):
    """P-103: two equal copies, one unused: right, and one copy is left; also under a
    scan of two layers."""
    lhs, rhs, sizes, _ = random_operands(SIZES, 15, 8, 8)

    @jax.jit
    def step(lhs, rhs, sizes):
        unused = gg.copy_group_sizes(sizes + 0)
        del unused
        lhs, one = gg.copy_group_sizes(sizes, before=lhs)
        lhs, two = gg.copy_group_sizes(sizes, before=lhs)
        out = gg.grouped_gemm(lhs, rhs, one, mode="async")
        return out + gg.grouped_gemm(lhs, rhs, two, mode="async")

    single = gg.grouped_gemm(lhs, rhs, sizes, mode="async")
    assert_bit_equal(step(lhs, rhs, sizes), single + single)
    text = step.lower(lhs, rhs, sizes).compile().as_text()
    assert text.count('custom_call_target="graphsafe_gg_group_sizes_copy_v1"') == 1

    @jax.jit
    def scanned(lhs, stack, sizes):
        def body(x, weights):
            x, copied = gg.copy_group_sizes(sizes, before=x)
            return jnp.tanh(gg.grouped_gemm(x, weights, copied, mode="async")), None

        return jax.lax.scan(body, lhs, stack)[0]

    expected = jnp.tanh(gg.grouped_gemm(lhs, rhs, sizes, mode="async"))
    expected = jnp.tanh(gg.grouped_gemm(expected, -rhs, sizes, mode="async"))
    assert_bit_equal(scanned(lhs, np.stack([rhs, -rhs]), sizes), expected)
