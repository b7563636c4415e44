# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The generator of combinations that the layers are tested with."""

import itertools

from support.pairwise import all_pairs


def test_all_pairs_has_every_pair_in_few_cases():
    options = {"a": "abcdefghij", "b": (1, 2, 3), "c": (False, True), "d": range(4)}
    cases = all_pairs(**options)
    for left, right in itertools.combinations(options, 2):
        found = {(case[left], case[right]) for case in cases}
        assert found == set(itertools.product(options[left], options[right]))
    assert 40 <= len(cases) <= 48
