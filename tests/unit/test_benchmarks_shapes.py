# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The timed shapes: the peers' recipe to the row, and every size pattern."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import shapes  # noqa: E402

PEER_ROWS = json.loads((BENCHMARKS / "peer_rows.json").read_text())["rows"]


@pytest.mark.parametrize("row", PEER_ROWS, ids=lambda row: row["case"])
def test_peer_rows_are_made_again_to_the_byte(row):
    case = next(c for c in shapes.peer_cases() if c.name == row["case"])
    sizes = shapes.group_sizes(case, "dirichlet")
    assert np.count_nonzero(sizes) == row["active_groups"]
    assert shapes.moved_bytes(case, sizes, "bfloat16", "fwd") == row["bytes"]
    assert shapes.flops(case, sizes) == row["flops"]
    assert shapes.peer_row(case.name) == row


def test_names_are_unique():
    cases = [case for suite in shapes.SUITES for case in shapes.cases_of(suite, "all")]
    assert len({case.name for case in cases}) == len(cases)
    assert {case.suite for case in shapes.peer_cases()} == set(shapes.SUITES)


@pytest.mark.parametrize("pattern", [p for p in shapes.PATTERNS if p != "tokens"])
@pytest.mark.parametrize("case", shapes.peer_cases(), ids=lambda case: case.name)
def test_patterns_place_every_row(case, pattern):
    sizes = shapes.group_sizes(case, pattern)
    assert sizes.dtype == np.int32
    assert sizes.shape == (case.g,)
    assert sizes.min() >= 0
    assert sizes.sum() == case.m
    assert np.array_equal(sizes, shapes.group_sizes(case, pattern))


def test_patterns_are_what_they_are_called():
    case = shapes.Case("x", "decode", g=16, m=1000, k=8, n=8, origin="test")
    assert np.ptp(shapes.uniform(case)) <= 1
    assert shapes.one_hot(case).max() >= 500
    assert np.count_nonzero(shapes.half_empty(case)) <= 8
    power = np.sort(shapes.power_law(case))
    assert power[-1] > 3 * power[len(power) // 2]


@pytest.mark.parametrize("case", shapes.model_cases(), ids=lambda case: case.name)
def test_tokens_go_to_distinct_experts(case):
    sizes = shapes.group_sizes(case, shapes.default_pattern(case))
    assert sizes.sum() == case.m
    assert sizes.max() <= case.m // case.top_k
    if case.name.endswith("/1t"):
        assert np.count_nonzero(sizes) == case.top_k


def test_tokens_need_whole_tokens():
    with pytest.raises(ValueError, match="pattern tokens needs a case"):
        shapes.group_sizes(shapes.peer_cases()[0], "tokens")


def test_weight_gradient_counts_every_group():
    case = shapes.Case("x", "decode", g=4, m=6, k=8, n=16, origin="test")
    sizes = np.array([6, 0, 0, 0])
    assert shapes.moved_bytes(case, sizes, "float32", "fwd") == 4 * (6 * 24 + 128)
    assert shapes.moved_bytes(case, sizes, "float32", "drhs") == 4 * (6 * 24 + 512)
