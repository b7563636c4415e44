# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The script of the GPU machine: parts, their time, and what they leave behind."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import results
import run_gpu


def python_part(name, code, limit_s=60.0):
    return run_gpu.Part(name, (sys.executable, "-c", code), limit_s)


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setattr(run_gpu, "_GRACE_S", 3)
    return run_gpu.Runner(tmp_path / "run.log", 100, dict(os.environ))


def test_a_part_that_breaks_leaves_the_others(runner, tmp_path):
    assert runner.run(python_part("a", "print('hello a')")).status == "ok"
    broken = runner.run(python_part("b", "raise SystemExit(3)"))
    assert broken.status == "exit status 3"
    missing = run_gpu.Part("c", ("/nowhere/at/all",), 60)
    assert runner.run(missing).status.startswith("failed to start")
    last = runner.run(python_part("d", "print('hello d')"))
    assert last.status == "ok"
    assert last.output.endswith("hello d\n")
    assert "hello a" not in last.output
    assert "hello a" in (tmp_path / "run.log").read_text()


def test_a_part_that_overruns_is_interrupted_first(runner):
    code = (
        "import time\n"
        "try:\n time.sleep(60)\n"
        "except KeyboardInterrupt:\n print('wrote what there was')\n"
    )
    outcome = runner.run(python_part("slow", code, limit_s=2))
    assert outcome.status == "stopped after 2 s"
    assert "wrote what there was" in outcome.output


def test_a_part_that_does_not_listen_is_killed(runner, monkeypatch):
    monkeypatch.setattr(run_gpu, "_GRACE_S", 1)
    code = "import signal, time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(60)"
    outcome = runner.run(python_part("deaf", code, limit_s=2))
    assert outcome.status == "stopped after 2 s"
    assert outcome.seconds < 30


def test_no_part_starts_after_the_deadline(tmp_path):
    runner = run_gpu.Runner(tmp_path / "run.log", 1, {})
    assert runner.run(python_part("late", "")).status == "not run: no time left"


def options_of(tmp_path, *arguments):
    options = run_gpu.parse_args([f"--out={tmp_path}", *arguments])
    options.machine = "NVIDIA H200"
    return options


def test_parts_are_the_commands_of_their_suites(tmp_path):
    options = options_of(
        tmp_path,
        "--parts=tests,decode-command,decode,decode-jit,prefill,middle-gnk",
        "--limit=decode=100",
        "--bench=--layouts gkn,gnk",
    )
    parts = run_gpu.make_parts(options, tmp_path)
    commands = {part.name: " ".join(part.command) for part in parts}
    assert commands["tests"].endswith("tests -m gpu")
    assert f"--results={tmp_path}/gpu-tests-h200.json" in commands["tests"]
    assert "--model Qwen3-30B-A3B --layers 8 --tokens 64" in commands["decode-command"]
    assert "--budget=90 --timings=graph,rotating" in commands["decode"]
    assert commands["decode"].endswith("--layouts gkn,gnk")
    assert "--timings=jit" in commands["decode-jit"]
    assert "--append" in commands["decode-jit"]
    assert "--timings=graph " in commands["prefill"]
    assert "--layouts=gnk" in commands["middle-gnk"]
    assert [part.limit_s for part in parts][2] == 100


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--limit=decode"], "--limit must be PART=SECONDS; got decode"),
        (["--limit=speed=3"], "--limit must be PART=SECONDS; got speed=3"),
    ],
)
def test_bad_options_are_explained(tmp_path, arguments, text, capsys):
    with pytest.raises(SystemExit):
        options_of(tmp_path, *arguments)
    assert text in capsys.readouterr().err


def test_unknown_part_is_named(tmp_path):
    with pytest.raises(SystemExit, match="got speed"):
        run_gpu.make_parts(options_of(tmp_path, "--parts=speed"), tmp_path)


def test_one_wheel_is_needed(tmp_path, monkeypatch):
    monkeypatch.setattr(run_gpu, "ROOT", tmp_path)
    options = options_of(tmp_path)
    with pytest.raises(SystemExit, match="must hold one wheel; got none"):
        run_gpu.find_wheel(options)
    (tmp_path / "dist").mkdir()
    wheel = tmp_path / "dist" / "graphsafe_gg-0.1.0-cp312-abi3-linux_x86_64.whl"
    wheel.touch()
    assert run_gpu.find_wheel(options) == wheel


def test_a_wheel_of_other_sources_is_noticed(tmp_path, monkeypatch):
    root, site = tmp_path / "root", tmp_path / "site"
    for folder in (root, site):
        (folder / "graphsafe_gg").mkdir(parents=True)
        (folder / "graphsafe_gg" / "same.py").write_text("same")
    (root / "graphsafe_gg" / "api.py").write_text("new")
    (site / "graphsafe_gg" / "api.py").write_text("old")
    wheel = tmp_path / "x.whl"
    monkeypatch.setattr(run_gpu, "ROOT", root)
    first, second = run_gpu.wheel_notices(wheel, site)
    assert first == "graphsafe_gg/api.py differs in the wheel"
    assert second.startswith("wheel.json names no sources")
    (tmp_path / "wheel.json").write_text(json.dumps({"sources": "0" * 16}))
    assert "csrc differs" in run_gpu.wheel_notices(wheel, site)[1]


def test_decode_command_becomes_a_result_file(tmp_path):
    report = tmp_path / "decode.json"
    report.write_text(
        json.dumps(
            {
                "model": {"name": "Qwen3-30B-A3B"},
                "layers": 8,
                "tokens": 64,
                "steps": 50,
                "dtype": "bf16",
                "tolerance": 0.01,
                "read": {"gb_s": 4440.0},
                "rows": [{"mode": "device", "ms_per_step": 2.5, "ok": True}],
            }
        )
    )
    facts = {"gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0"}
    load = {"sm_clock_mhz": 1980, "power_w": 350.0}
    run_gpu.record_decode_command(report, tmp_path, facts, load)
    doc = json.loads((tmp_path / "decode-command-h200.json").read_text())
    assert results.validate(doc) == []
    assert doc["read_tb_s"] == 4.44
    assert doc["rows"][0]["case"] == "Qwen3-30B-A3B"
    report.unlink()
    text = "\n".join(run_gpu.summary(tmp_path))
    assert "decode-command-h200.json: 1 rows, read 4.44 TB/s" in text
    assert "mode device, ms_per_step 2.5" in text


def test_summary_counts_tests_and_names_failures(tmp_path):
    rows = [
        {"test": "a", "outcome": "passed", "seconds": 1.0, "reason": ""},
        {"test": "b", "outcome": "failed", "seconds": 1.0, "reason": "1 != 2"},
    ]
    doc = results.document(
        "gpu-tests",
        rows,
        gpu="NVIDIA H200",
        driver="580.1",
        cuda="13.0",
        sm_clock_mhz=1980,
        power_w=300.0,
    )
    results.write(doc, tmp_path)
    lines = run_gpu.summary(tmp_path)
    assert "  1 failed, 1 passed" in lines
    assert "  failed b: 1 != 2" in lines


def test_rehearsal_adds_every_kind_of_row(tmp_path):
    parts = ",".join(f"decode{kind}" for kind in ("", "-patterns", "-gnk", "-models"))
    arguments = ["--dry-run", f"--out={tmp_path}", f"--parts={parts}"]
    assert run_gpu.main([*arguments, "--bench=--cases qwen3-30b*/w2/*"]) == 0
    rows = json.loads((tmp_path / "decode-dry-run.json").read_text())["rows"]
    sizes = {"dirichlet", "uniform", "power_law", "one_hot", "half_empty", "tokens"}
    assert {row["sizes"] for row in rows} == sizes
    assert {row["layout"] for row in rows} == {"gkn", "gnk"}


def test_rehearsal_runs_every_step(tmp_path, capsys):
    arguments = ["--dry-run", f"--out={tmp_path}", "--parts=prefill,tests"]
    arguments += ["--bench=--cases qwen3*", "--tests=--version"]
    assert run_gpu.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "prefill-dry-run.json: 1 rows" in printed
    last = printed.splitlines()[-2:]
    assert [line.split()[0] for line in last] == ["prefill", "tests"]
    assert all(line.endswith("ok") for line in last)
