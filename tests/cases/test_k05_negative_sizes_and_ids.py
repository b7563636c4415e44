# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K05: negative sizes, and expert ids out of range."""

import jax
import numpy as np
import pytest
from support.bad_sizes import BadSizes, assert_reported
from support.operands import MODES, random_operands
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.mlp import permute, unpermute
from graphsafe_gg.testing import assert_bit_equal

IDS = np.array([0, -1, 2, 2, -1, 1], np.int32)


@pytest.mark.parametrize("mode", MODES)
def test_p012_dropped_choices_do_not_count(device, mode):
    """P-012: id -1 is no expert: not the last one, not a row, and adds a zero."""
    counted = gg.group_sizes_of(IDS, 3)
    assert np.asarray(counted.sizes).tolist() == [1, 1, 2]
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((6, 8), np.float32)
    tokens[[1, 4]] = np.nan
    weights = rng.standard_normal((3, 8, 8), np.float32)

    @jax.jit
    def layer(tokens):
        rows, sizes, permutation = permute(tokens, IDS[:, None], 3)
        out = gg.grouped_gemm(rows, weights, sizes, mode=mode)
        return sizes, unpermute(out, permutation, np.ones((6, 1), np.float32))

    sizes, out = layer(tokens)
    assert sizes.tolist() == [1, 1, 2]
    for token, expert in enumerate(IDS):
        truth = tokens[token] @ weights[expert] if expert >= 0 else np.zeros(8)
        np.testing.assert_allclose(out[token], truth, rtol=1e-4, atol=1e-5)
    assert_bit_equal(np.asarray(out)[[1, 4]], np.zeros((2, 8), np.float32))


BAD = BadSizes([16, -16, 32, 0], "group_sizes[1] must be >= 0; got -16", [16, 0, 16, 0])


@pytest.mark.parametrize("mode", MODES)
def test_p013_negative_size_with_a_sum_that_looks_right(device, mode):
    """P-013: names index 1; a device counts it as 0; the next call is fine."""
    operands = random_operands(np.array(BAD.sizes, np.int32), 32, 24, 40)
    result = assert_reported(
        device,
        mode,
        BAD,
        "p013",
        lambda: run_products(*operands, mode=mode, name="p013"),
    )
    if result is not None:
        cut = operands._replace(group_sizes=np.array(BAD.cut, np.int32))
        assert_products_close(result, truth_of(cut))
    check_products(random_operands([16, 0, 16, 0], 32, 24, 40), mode=mode)
