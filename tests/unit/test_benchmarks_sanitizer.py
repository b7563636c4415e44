# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The sanitizer suite, with a program in the sanitizer's place: one row a tool."""

import json
import stat
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import gpu_facts
import run_sanitizer

CLEAN = "4 passed in 3.2s\n========= ERROR SUMMARY: 0 errors\n"
HAZARD = (
    "========= Error: Race reported between Write access at gg_fwd\n"
    "4 passed in 3.2s\n"
    "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n"
)


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """Runs tools whose output is given by name, and returns the status and the rows."""

    def run(outputs, limit=10):
        lines = [f"*tool={tool}*) {code};;" for tool, code in outputs.items()]
        path = tmp_path / "compute-sanitizer"
        path.write_text("\n".join(["#!/bin/sh", 'case "$*" in', *lines, "esac\n"]))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(run_sanitizer.shutil, "which", lambda name: str(path))
        facts = {"gpu": "NVIDIA H200", "driver": "580", "cuda": "13.0"}
        monkeypatch.setattr(gpu_facts, "query", lambda: facts)
        options = [f"--out={tmp_path}", f"--tools={','.join(outputs)}"]
        status = run_sanitizer.main([*options, f"--limit={limit}"])
        document = json.loads((tmp_path / "sanitizer-h200.json").read_text())
        return status, document["rows"]

    return run


def test_clean_tools_have_rows_without_errors(suite):
    status, rows = suite(
        {"memcheck": f"printf '{CLEAN}'", "synccheck": f"printf '{CLEAN}'"}
    )
    assert status == 0
    assert [row["case"] for row in rows] == ["memcheck", "synccheck"]
    for row in rows:
        assert (row["errors"], row["tests"], row["exit"]) == (0, 4, 0)


def test_a_finding_is_in_its_row_and_in_the_status(suite):
    status, rows = suite(
        {"memcheck": f"printf '{CLEAN}'", "racecheck": f"printf '{HAZARD}'; exit 9"}
    )
    assert status == 1
    assert (rows[1]["errors"], rows[1]["exit"]) == (2, 9)
    assert rows[1]["finding"].startswith("Error: Race reported")
    assert rows[0]["errors"] == 0


def test_a_tool_that_is_stopped_is_no_clean_one(suite):
    status, rows = suite({"memcheck": "exec sleep 20"}, limit=0.5)
    assert status == 1
    assert (rows[0]["errors"], rows[0]["tests"], rows[0]["exit"]) == (-1, 0, -1)


def test_a_run_without_tests_is_no_clean_one(suite):
    empty = "printf '========= ERROR SUMMARY: 0 errors\\n'"
    status, rows = suite({"memcheck": empty})
    assert status == 1
    assert rows[0]["tests"] == 0
