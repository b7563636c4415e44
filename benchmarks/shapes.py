# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Every shape that is timed, with its origin, and how its rows fall on the groups."""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

_HERE = Path(__file__).resolve().parent
_MODELS = _HERE.parent / "graphsafe_gg" / "decode" / "models.json"
_PEER_ROWS = _HERE / "peer_rows.json"

ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
SUITES = ("decode", "middle", "prefill")
PRODUCTS = ("fwd", "dlhs", "drhs")
LAYOUTS = ("gkn", "gnk")
# Models whose peer rows have a shorter name.
_SHORT_NAMES = {"Qwen3-30B-A3B": "qwen3-30b", "Qwen3-Next-80B-A3B": "qwen3-next"}


@dataclasses.dataclass(frozen=True)
class Case:
    """One product of one layer: (m, k) rows times g matrices of (k, n).

    Attributes:
      name: model/matrix/rows, as in peer_rows.json where it stands there.
      suite: decode, middle or prefill.
      origin: where the shape comes from.
      top_k: distinct experts of one token, where rows come from single tokens; else 0.
    """

    name: str
    suite: str
    g: int
    m: int
    k: int
    n: int
    origin: str
    top_k: int = 0


@functools.cache
def peer_cases() -> tuple[Case, ...]:
    """The rows that peers were timed on."""
    rows = json.loads(_PEER_ROWS.read_text())["rows"]
    return tuple(
        Case(
            row["case"],
            row["suite"],
            *(row[axis] for axis in "gmkn"),
            origin="peer_rows.json",
        )
        for row in rows
    )


@functools.cache
def model_cases() -> tuple[Case, ...]:
    """Few tokens of each public model, whole layers: suite decode, no peer beside."""
    cases = []
    for model in json.loads(_MODELS.read_text())["models"]:
        name = _SHORT_NAMES.get(model["name"], model["name"].lower())
        g, hidden, inner = (model[x] for x in ("num_experts", "hidden", "intermediate"))
        for matrix, k, n in (("w1", hidden, 2 * inner), ("w2", inner, hidden)):
            for tokens in (1, 4, 16):
                cases.append(
                    Case(
                        f"{name}/{matrix}/{tokens}t",
                        "decode",
                        g,
                        tokens * model["top_k"],
                        k,
                        n,
                        origin=f"models.json: {model['name']}",
                        top_k=model["top_k"],
                    )
                )
    return tuple(cases)


def cases_of(suite: str, which: str = "peers") -> tuple[Case, ...]:
    """The cases of a suite: `which` is peers, models or all."""
    found = {
        "peers": peer_cases(),
        "models": model_cases(),
        "all": peer_cases() + model_cases(),
    }[which]
    return tuple(case for case in found if case.suite == suite)


def peer_row(name: str) -> dict | None:
    """What the best peers did on the case, in their run."""
    rows = json.loads(_PEER_ROWS.read_text())["rows"]
    return next((row for row in rows if row["case"] == name), None)


def dirichlet(case: Case) -> np.ndarray:
    """A router with mild preferences; the recipe of the peers' rows."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(case.g, 4.0))
    return rng.multinomial(case.m, p)


def uniform(case: Case) -> np.ndarray:
    """Sizes that differ by at most one."""
    sizes = np.full(case.g, case.m // case.g)
    sizes[: case.m % case.g] += 1
    return sizes


def power_law(case: Case) -> np.ndarray:
    """Expert i in order of favour gets a share in proportion to 1 / (i + 1)."""
    rng = np.random.default_rng(0)
    p = rng.permutation(1.0 / np.arange(1, case.g + 1))
    return rng.multinomial(case.m, p / p.sum())


def one_hot(case: Case) -> np.ndarray:
    """One expert has half of the rows, the others share the rest evenly."""
    sizes = uniform(dataclasses.replace(case, m=case.m - case.m // 2))
    sizes[case.g // 2] += case.m // 2
    return sizes


def half_empty(case: Case) -> np.ndarray:
    """Every other expert has no row; the rest as in `dirichlet`."""
    sizes = np.zeros(case.g, int)
    used = (case.g + 1) // 2
    sizes[::2] = dirichlet(dataclasses.replace(case, g=used))
    return sizes


def tokens(case: Case) -> np.ndarray:
    """Each token goes to `top_k` distinct experts, by a router as in `dirichlet`."""
    if case.top_k == 0 or case.m % case.top_k:
        raise ValueError(
            f"shapes: pattern tokens needs a case whose rows come from whole tokens; "
            f"got {case.name}. Choose another pattern."
        )
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(case.g, 4.0))
    sizes = np.zeros(case.g, int)
    for _ in range(case.m // case.top_k):
        sizes[rng.choice(case.g, case.top_k, replace=False, p=p)] += 1
    return sizes


PATTERNS: dict[str, Callable[[Case], np.ndarray]] = {
    "dirichlet": dirichlet,
    "uniform": uniform,
    "power_law": power_law,
    "one_hot": one_hot,
    "half_empty": half_empty,
    "tokens": tokens,
}


def group_sizes(case: Case, pattern: str) -> np.ndarray:
    return PATTERNS[pattern](case).astype(np.int32)


def default_pattern(case: Case) -> str:
    return "tokens" if case.top_k else "dirichlet"


def flops(case: Case, sizes: np.ndarray) -> int:
    return 2 * int(sizes.sum()) * case.k * case.n


def weight_bytes(case: Case, sizes: np.ndarray, dtype: str) -> int:
    """Bytes of the matrices of the groups that have rows."""
    return int(np.count_nonzero(sizes)) * case.k * case.n * ITEM_BYTES[dtype]


def moved_bytes(case: Case, sizes: np.ndarray, dtype: str, product: str) -> int:
    """What has to move, once each: the operands that are needed and the result.

    The weight gradient writes the matrices of all groups, empty ones as zeros.
    """
    item = ITEM_BYTES[dtype]
    rows = case.m * (case.k + case.n) * item
    if product == "drhs":
        return rows + case.g * case.k * case.n * item
    return rows + weight_bytes(case, sizes, dtype)
