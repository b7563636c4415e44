# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""pytest plugin behind --results: the tests on a GPU as a file of suite gpu-tests."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import graphsafe_gg as gg

_BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
_QUERY = "name,driver_version,clocks.sm,power.draw"


class ResultFile:
    """Collects a row for each test marked gpu and writes the file at the end."""

    def __init__(self, file: str):
        self._file = Path(file)
        self._rows: dict[str, dict] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if item.get_closest_marker("gpu"):
            self._add(report)
        return report

    def _add(self, report) -> None:
        row = self._rows.setdefault(
            report.nodeid,
            {"test": report.nodeid, "outcome": "passed", "seconds": 0.0, "reason": ""},
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
            warnings.warn(
                f"--results: only the rows were written: {error}", stacklevel=1
            )

    def _write_checked(self, rows: list[dict]) -> None:
        sys.path.insert(0, str(_BENCHMARKS))
        try:
            import results
        finally:
            sys.path.remove(str(_BENCHMARKS))
        header = _gpu_header()
        document = results.document("gpu-tests", rows, **header)
        results.write(document, self._file.parent).replace(self._file)


def _reason(report) -> str:
    if isinstance(report.longrepr, tuple):
        text = report.longrepr[2]
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash else str(report.longrepr)
    return " ".join(text.split())[:300]


def _gpu_header() -> dict:
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    first_gpu = answer.stdout.splitlines()[0]
    name, driver, clock, power = (field.strip() for field in first_gpu.split(","))
    return {
        "gpu": name,
        "driver": driver,
        "cuda": gg.stats()["build"]["cuda_toolkit"],
        "sm_clock_mhz": float(clock),
        "power_w": float(power),
    }
