# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Few combinations of options in which every pair of values of two options occurs."""

import itertools


def all_pairs(**options) -> list[dict]:
    """Greedy: each case starts from a pair that is missing and is filled with the
    values that add the most missing pairs. The same list at every call."""
    names = list(options)
    missing = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(names, 2)
        for i in range(len(options[a]))
        for j in range(len(options[b]))
    }
    cases = []
    while missing:
        chosen = dict(min(missing))
        for name in names:
            if name not in chosen:
                gains = [
                    len(missing & _pairs({**chosen, name: i}, names))
                    for i in range(len(options[name]))
                ]
                # Ties take turns, so that no value is favoured.
                start = len(cases) % len(gains)
                order = [*range(start, len(gains)), *range(start)]
                chosen[name] = max(order, key=gains.__getitem__)
        missing -= _pairs(chosen, names)
        cases.append({name: options[name][chosen[name]] for name in names})
    return cases


def case_id(case: dict) -> str:
    return "-".join(str(getattr(v, "__name__", v)) for v in case.values())


def _pairs(chosen: dict, names: list[str]) -> set:
    items = [(name, chosen[name]) for name in names if name in chosen]
    return set(itertools.combinations(items, 2))
