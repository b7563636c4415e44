# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Routing that is made from recorded group sizes."""

import numpy as np
import pytest

from graphsafe_gg.decode.expert_choices import expert_choices


@pytest.mark.parametrize("sizes", [[4, 0, 2, 4], [5, 5, 0, 0], [1, 2, 3, 4]])
def test_expert_choices_have_exactly_the_sizes(sizes):
    choices = expert_choices(np.array(sizes), 2, 8, np.random.default_rng(0))
    counts = np.bincount(choices[choices >= 0], minlength=4)
    np.testing.assert_array_equal(counts, sizes)
    dropped = np.all(choices == -1, axis=1)
    assert np.sum(dropped) == 3
    kept = choices[~dropped]
    assert np.all(kept[:, 0] != kept[:, 1])


def test_expert_choices_mix_the_tokens():
    sizes = np.array([10, 10, 0, 0])
    first, second = (
        expert_choices(sizes, 2, 20, np.random.default_rng(seed)) for seed in (0, 1)
    )
    assert not np.array_equal(first, second)
    assert np.any(first[10:] >= 0)


def test_expert_choices_of_an_expert_larger_than_the_tokens():
    choices = expert_choices(np.array([6, 0]), 2, 3, np.random.default_rng(0))
    np.testing.assert_array_equal(choices, np.zeros((3, 2)))
