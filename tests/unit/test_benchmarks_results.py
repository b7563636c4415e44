# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The schema of the result files, and every committed file against it."""

import copy
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import results  # noqa: E402

ROW = {
    "case": "qwen3-30b/w1/64t",
    "mode": "device",
    "product": "fwd",
    "g": 128,
    "m": 512,
    "k": 2048,
    "n": 1536,
    "dtype": "bfloat16",
    "layout": "gkn",
    "sizes": "dirichlet",
    "timing": "graph",
    "setting": "10 calls",
    "ms": 0.18,
    "spread_ms": 0.001,
    "tb_s": 4.3,
    "tflops": 18.0,
    "rel_err": 0.002,
    "baselines_ms": {"dense": 0.05},
}
MACHINE = {
    "gpu": "NVIDIA H200",
    "driver": "580.159.04",
    "cuda": "13.0",
    "jax": "0.11.2",
    "sm_clock_mhz": 1980,
    "power_w": 400.5,
    "read_tb_s": 4.45,
}


def timed_document(**row):
    doc = results.document("decode", [{**copy.deepcopy(ROW), **row}], **MACHINE)
    return doc


@pytest.mark.parametrize(
    "path", sorted((BENCHMARKS / "results").glob("*.json")), ids=lambda path: path.name
)
def test_committed_results_are_valid(path):
    doc = json.loads(path.read_text())
    assert results.validate(doc) == []
    machine = doc["gpu"] or doc["machine"]["name"]
    assert path.name == results.file_name(doc["suite"], machine)


def test_written_document_is_read_back_unchanged(tmp_path):
    doc = timed_document()
    path = results.write(doc, tmp_path)
    assert path.name == "decode-h200.json"
    assert json.loads(path.read_text()) == doc


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ms": 0.0}, "rows[0].ms must be positive; got 0.0"),
        ({"ms": "fast"}, "rows[0].ms has type str"),
        ({"rel_err": float("nan")}, "rows[0].rel_err must be finite; got nan"),
        ({"mode": "fastest"}, "rows[0].mode must be one of"),
        ({"baselines_ms": {"dense": None}}, "rows[0].baselines_ms['dense'] must be"),
        ({"note": "x"}, "rows[0] has an unknown field note"),
    ],
)
def test_row_errors_name_the_field(change, problem):
    found = results.validate(timed_document(**change))
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_missing_fields_are_named():
    doc = timed_document()
    del doc["rows"][0]["layout"]
    assert results.validate(doc) == ["rows[0] lacks layout"]
    del doc["gpu"]
    assert results.validate(doc) == ["document lacks gpu"]


def test_gpu_suite_needs_what_the_gpu_says():
    doc = results.document("decode", [ROW], **{**MACHINE, "read_tb_s": None})
    assert results.validate(doc) == ["read_tb_s must be set"]


@pytest.mark.parametrize(
    ("suite", "row", "problems"),
    [
        ("step", {"case": "a", "mode": "device", "idle_us": None}, []),
        ("step", {"mode": "device"}, ["rows[0] lacks case"]),
        ("runtime", {"case": "bubble/device", "value": 1.5, "unit": "us"}, []),
        ("runtime", {"case": "bubble", "value": 1.5}, ["rows[0] lacks unit"]),
    ],
)
def test_suites_of_steps_have_rows_of_their_own(suite, row, problems):
    facts = {"gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0", "jax": "0.11.2"}
    assert results.validate(results.document(suite, [row], **facts)) == problems


def test_repeated_row_is_an_error():
    doc = results.document("decode", [ROW, ROW], **MACHINE)
    assert results.validate(doc)[0].startswith("rows[1] repeats")


def test_values_of_a_later_run_replace_those_of_the_same_case():
    def of(*pairs):
        rows = [{"case": case, "value": value, "unit": "us"} for case, value in pairs]
        return results.document("runtime", rows, failures=[], **MACHINE)

    both = results.merge(of(("a", 1.0), ("b", 2.0)), of(("b", 3.0)))
    assert results.validate(both) == []
    found = [(row["case"], row["value"]) for row in both["rows"]]
    assert found == [("a", 1.0), ("b", 3.0)]


def test_invalid_document_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="positive"):
        results.write(timed_document(ms=-1.0), tmp_path)
    assert not list(tmp_path.iterdir())


def test_junit_outcomes_become_rows(tmp_path):
    path = tmp_path / "junit.xml"
    path.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.gpu.test_a" name="test_x[1]" time="0.25"/>'
        '<testcase classname="tests.gpu.test_a" name="test_y" time="0">'
        '<skipped type="pytest.skip" message="needs two GPUs"/></testcase>'
        '<testcase classname="tests.gpu.test_a" name="test_z" time="1">'
        '<failure message="assert 1 == 2">text</failure></testcase>'
        "</testsuite></testsuites>"
    )
    rows = results.rows_from_junit(path)
    assert [row["outcome"] for row in rows] == ["passed", "skipped", "failed"]
    assert rows[0]["test"] == "tests/gpu/test_a.py::test_x[1]"
    assert rows[1]["reason"] == "needs two GPUs"
    doc = results.document("gpu-tests", rows, **{**MACHINE, "read_tb_s": None})
    assert results.validate(doc) == []
