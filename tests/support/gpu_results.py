# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""pytest plugin behind --results: the tests on a GPU as a file of suite gpu-tests."""

import importlib
import json
import sys
import time
from pathlib import Path

_BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


class ResultFile:
    """Collects a row for each test marked gpu and writes the file at the end."""

    def __init__(self, file: str):
        self._file = Path(file)
        self._rows: dict[str, dict] = {}
        self._start = time.perf_counter()
        self._sampler = _benchmarks_module("gpu_facts").Sampler()

    def pytest_runtest_logreport(self, report):
        # Reports of other processes (pytest -n) bring their markers along.
        if "gpu" in report.keywords:
            self._add(report)

    def _add(self, report) -> None:
        name = report.nodeid
        if "xdist_group" in report.keywords:
            name = name.rpartition("@")[0] or name
        row = self._rows.setdefault(
            name, {"test": name, "outcome": "passed", "seconds": 0.0, "reason": ""}
        )
        row["seconds"] = round(row["seconds"] + report.duration, 3)
        if report.passed:
            return
        outcome = report.outcome
        if report.failed and report.when != "call":
            outcome = "error"
        if hasattr(report, "wasxfail"):
            outcome = "xfailed"
        row["outcome"], row["reason"] = outcome, _reason(report)

    def pytest_sessionfinish(self):
        self._file.parent.mkdir(parents=True, exist_ok=True)
        rows = list(self._rows.values())
        try:
            self._write_checked(rows)
        except Exception as error:
            # GPU time is scarce: the rows are kept even where the header is not.
            self._file.write_text(json.dumps({"suite": "gpu-tests", "rows": rows}))
            print(f"\n--results: only the rows were written: {error}", file=sys.stderr)

    def _write_checked(self, rows: list[dict]) -> None:
        results = _benchmarks_module("results")
        load = self._sampler.median_since(self._start)
        self._sampler.stop()
        header = _benchmarks_module("gpu_facts").query()
        document = results.document("gpu-tests", rows, **header, **load)
        results.write(document, self._file.parent).replace(self._file)


def _benchmarks_module(name: str):
    sys.path.insert(0, str(_BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(_BENCHMARKS))


def _reason(report) -> str:
    if isinstance(report.longrepr, tuple):
        text = report.longrepr[2]
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:300]
