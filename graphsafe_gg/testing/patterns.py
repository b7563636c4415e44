# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Group sizes worth testing: how routers fill groups, and the corners of that."""

from collections.abc import Iterator

import numpy as np


def size_patterns(num_groups: int, m: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Named int32 group sizes, each with a sum of at most m.

    Args:
      num_groups: at least 1.
      m: rows that there are.
      seed: of the random patterns.

    Returns:
      all_empty: no row belongs to a group.
      one_first, one_middle, one_last: one group has every row.
      uniform: every row, sizes that differ by at most one.
      dirichlet: every row, a router with mild preferences.
      power_law: every row, few experts with most of them.
      half_empty: every row, in every other group.
      ragged_by_one: every row, neighbours one more and one less than the mean.
      short: a dirichlet draw of about two thirds of the rows; the rest is padding.
    """
    rng = np.random.default_rng(seed)
    uniform = np.full(num_groups, m // num_groups)
    uniform[: m % num_groups] += 1
    ragged = uniform.copy()
    pairs = ragged[: num_groups // 2 * 2].reshape(-1, 2)
    pairs += np.where(pairs[:, 1:] > 0, [1, -1], 0)
    half = np.zeros(num_groups, int)
    half[::2] = _shares(np.ones(len(half[::2])), m)
    power = rng.permutation(1.0 / np.arange(1, num_groups + 1) ** 1.5)
    patterns = {
        "all_empty": np.zeros(num_groups, int),
        "one_first": _all_in(0, num_groups, m),
        "one_middle": _all_in(num_groups // 2, num_groups, m),
        "one_last": _all_in(num_groups - 1, num_groups, m),
        "uniform": uniform,
        "dirichlet": _draw(rng, rng.dirichlet(np.full(num_groups, 4.0)), m),
        "power_law": _draw(rng, power / power.sum(), m),
        "half_empty": half,
        "ragged_by_one": ragged,
        "short": _draw(rng, rng.dirichlet(np.full(num_groups, 4.0)), 2 * m // 3),
    }
    return {name: sizes.astype(np.int32) for name, sizes in patterns.items()}


def empty_group_masks(num_groups: int, m: int) -> Iterator[np.ndarray]:
    """Int32 sizes for each of the 2^num_groups choices of groups that are empty.

    The rows are shared unevenly among the others: 1 : 2 : 3 and so on.
    """
    for mask in range(2**num_groups):
        is_used = np.array([mask >> group & 1 for group in range(num_groups)])
        yield _shares(is_used * np.arange(1, num_groups + 1), m).astype(np.int32)


def _all_in(group: int, num_groups: int, m: int) -> np.ndarray:
    sizes = np.zeros(num_groups, int)
    sizes[group] = m
    return sizes


def _draw(rng: np.random.Generator, shares: np.ndarray, m: int) -> np.ndarray:
    return rng.multinomial(m, shares)


def _shares(weights: np.ndarray, m: int) -> np.ndarray:
    """Splits m rows in proportion to integer weights; no rows if all are zero."""
    if not weights.any():
        return np.zeros(len(weights), int)
    ends = np.floor(np.cumsum(weights) * m / weights.sum()).astype(int)
    return np.diff(ends, prepend=0)
