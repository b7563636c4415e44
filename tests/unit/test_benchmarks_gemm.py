# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's whole logic, run dry: small shapes on the CPU."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_grouped_gemm as bench
import raw_product
import results

FILE = "decode-dry-run.json"
QUICK = ("--dry-run", "--warm-up=0", "--cases=qwen3-30b/w2/*", "--baselines=")


@pytest.fixture
def run(tmp_path):
    def run(*arguments):
        status = bench.main([*QUICK, f"--out={tmp_path}", *arguments])
        return status, json.loads((tmp_path / FILE).read_text())

    return run


def test_every_timing_and_product_gives_a_valid_row(run, capsys):
    products = "--products=fwd,dlhs,drhs"
    status, doc = run(products, "--layouts=gkn,gnk", "--modes=device,sync")
    assert status == 0
    assert results.validate(doc) == []
    kinds = {(r["product"], r["timing"], r["layout"], r["mode"]) for r in doc["rows"]}
    forward = {
        (product, *timing)
        for product in ("fwd", "dlhs")
        for layout in ("gkn", "gnk")
        for timing in (
            ("graph", layout, "device"),
            ("rotating", layout, "device"),
            ("jit", layout, "device"),
            ("jit", layout, "sync"),
        )
    }
    assert forward < kinds
    assert {kind[1] for kind in kinds if kind[0] == "drhs"} == {"graph", "jit"}
    assert all(0 < row["rel_err"] < 4e-3 for row in doc["rows"])
    graph = next(row for row in doc["rows"] if row["timing"] == "graph")
    assert set(graph["baselines_ms"]) == {"stream_read"}
    assert "suite decode: " in capsys.readouterr().out


def test_every_config_is_timed_beside_the_chosen_one(run, monkeypatch):
    launcher, names = raw_product.launcher, ["one", "broken"]
    monkeypatch.setattr(raw_product, "config_names", lambda device, load: names)

    def launch(device, load, *, config="", **_):
        return (lambda i: None) if config == "broken" else launcher(device, load)

    monkeypatch.setattr(raw_product, "launcher", launch)
    status, doc = run("--timings=graph", "--configs")
    assert status == 1
    (failure,) = doc["failures"]
    assert "broken: wrong result" in failure
    (row,) = doc["rows"]
    assert set(row["baselines_ms"]) == {"stream_read", "one"}
    assert 0 < row["rel_err"] < 4e-3
    assert "wrong result" in doc["missing"]["broken"]


def test_calls_that_start_early_are_a_row_of_their_own(run):
    status, doc = run("--timings=graph,rotating", "--early")
    assert status == 0
    assert results.validate(doc) == []
    early = ["started early" in row["setting"] for row in doc["rows"]]
    assert early == [False, True] * 2
    assert all(set(row["baselines_ms"]) == {"stream_read"} for row in doc["rows"])


def test_baselines_of_the_step_run_or_are_named(run):
    names = "lax.ragged_dot,tokamax,torch grouped_mm"
    status, doc = run("--timings=graph,jit", f"--baselines={names}")
    assert status == 0
    jit = next(row for row in doc["rows"] if row["timing"] == "jit")
    assert set(jit["baselines_ms"]) == {"lax.ragged_dot"}
    assert "tokamax" in doc["missing"]
    assert "torch grouped_mm" in doc["missing"]


def test_append_keeps_rows_and_replaces_the_same(run):
    _, first = run("--timings=graph")
    _, both = run("--timings=jit", "--append")
    assert {row["timing"] for row in both["rows"]} == {"graph", "jit"}
    _, again = run("--timings=graph", "--append")
    assert len(again["rows"]) == len(both["rows"])
    assert again["rows"][-1]["ms"] != first["rows"][-1]["ms"]


def test_append_refuses_rows_of_other_sources(tmp_path):
    doc = {"suite": "decode", "sources": "a", "gpu": "x", "driver": "1", "cuda": "1"}
    doc |= {"jax": "1", "rows": [], "read_tb_s": None}
    with pytest.raises(ValueError, match="sources differ"):
        results.merge(doc, {**doc, "sources": "b"})


def test_a_wrong_result_is_a_failure_and_no_row(run, monkeypatch):
    def forget(self, load):
        return lambda i: self.issue(lambda: None)

    monkeypatch.setattr("host_device.HostDevice.grouped_gemm_launcher", forget)
    status, doc = run("--timings=graph")
    assert status == 1
    assert doc["rows"] == []
    assert "result not finite, no row" in doc["failures"][0]


def test_a_job_that_fails_leaves_the_others(run, monkeypatch):
    original = bench.Bench._measure_graph

    def fail_once(self, load, kind):
        if load.layout == "gnk":
            raise RuntimeError("no kernel\nand more")
        original(self, load, kind)

    monkeypatch.setattr(bench.Bench, "_measure_graph", fail_once)
    status, doc = run("--timings=graph", "--layouts=gkn,gnk")
    assert status == 1
    assert [row["layout"] for row in doc["rows"]] == ["gkn"]
    assert doc["failures"][0].endswith("RuntimeError: no kernel")


def test_spent_budget_stops_and_says_so(run, monkeypatch):
    original = bench.Bench._run_job

    def run_slowly(self, job):
        original(self, job)
        self.start -= 1000

    monkeypatch.setattr(bench.Bench, "_run_job", run_slowly)
    status, doc = run("--timings=graph", "--layouts=gkn,gnk", "--budget=999")
    assert status == 1
    assert len(doc["rows"]) == 1
    assert doc["failures"] == ["budget of 999.0 s: 1 left"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--patterns=even"], "must be of dirichlet, uniform"),
        (["--dry-run"], "--dry-run needs --out"),
    ],
)
def test_bad_options_are_explained(arguments, text, capsys):
    with pytest.raises(SystemExit):
        bench.parse_args(arguments)
    assert text in capsys.readouterr().err


def test_no_matching_case_is_an_error():
    options = bench.parse_args(["--cases=nothing*"])
    with pytest.raises(SystemExit, match="no case that matches"):
        bench.make_jobs(options)


def test_list_prints_origins(capsys):
    assert bench.main(["--list", "--rows=all", "--cases=qwen3-30b/w1/1t"]) == 0
    assert "(models.json: Qwen3-30B-A3B)" in capsys.readouterr().out
