# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which cases a run of bench_grouped_gemm.py times, and how."""

import argparse
import dataclasses
import fnmatch
from collections.abc import Iterator

import shapes


@dataclasses.dataclass(frozen=True)
class Job:
    """One case with its operands, timed in one or more ways."""

    case: shapes.Case
    pattern: str
    product: str
    layout: str
    dtype: str
    timings: tuple[str, ...]

    def __str__(self) -> str:
        where = (self.pattern, self.product, self.layout, self.dtype)
        return f"{self.case.name} {' '.join(where)}"


def make_jobs(options: argparse.Namespace) -> list[Job]:
    """Every job the options ask for, those of one dtype together."""
    jobs = list(_jobs(options))
    if not jobs:
        raise SystemExit(
            f"bench_grouped_gemm: suite {options.suite} has no case that matches "
            f"{options.cases}; --list prints them."
        )
    return sorted(jobs, key=lambda job: options.dtypes.index(job.dtype))


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    for case in shapes.cases_of(options.suite, options.rows):
        if not any(fnmatch.fnmatch(case.name, glob) for glob in options.cases):
            continue
        if options.dry_run:
            case = _shrunk(case)
        for product in options.products:
            timings = tuple(
                kind
                for kind in options.timings
                if not (kind == "rotating" and product == "drhs")
            )
            for pattern in options.patterns or (shapes.default_pattern(case),):
                if pattern == "tokens" and not case.top_k:
                    continue
                for layout in options.layouts:
                    for dtype in options.dtypes:
                        yield Job(case, pattern, product, layout, dtype, timings)


def _shrunk(case: shapes.Case) -> shapes.Case:
    """The case made small enough for NumPy, for dry runs."""
    if case.top_k:
        return dataclasses.replace(case, k=32, n=48)
    return dataclasses.replace(case, m=min(case.m, 96), k=32, n=48)
