# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Tests and benchmarks on a GPU machine, from a wheel, each part within its time.

Installs the wheel into a temporary folder, runs the parts that are asked for one after
the other, and writes result files and one log into --out. A part that breaks or takes
too long is said so and leaves the others alone. benchmarks/README.md has the commands.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bench_grouped_gemm
import gpu_facts
import results
import sources

ROOT = Path(__file__).resolve().parent.parent
_BENCH = ROOT / "benchmarks" / "bench_grouped_gemm.py"
_GRAPH_ALONE = ("--timings=graph", "--baselines=")
# Rows that are added to a suite's file by a process of their own, and how they are had.
# "" is the suite itself.
_KINDS = {
    "": (),
    "jit": ("--timings=jit",),
    "patterns": ("--patterns=uniform,power_law,one_hot,half_empty", *_GRAPH_ALONE),
    "gnk": ("--layouts=gnk", "--timings=graph,rotating", "--baselines="),
    "models": ("--rows=models", "--timings=rotating", "--baselines="),
}
# Between asking a part to stop and stopping it: pytest writes what it has when it is
# interrupted. The benchmarks write after each job.
_GRACE_S = 15


@dataclasses.dataclass(frozen=True)
class Part:
    """A command, how long it may take, and the variables it wants."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Outcome:
    part: str
    status: str
    seconds: float
    output: str


def make_parts(options: argparse.Namespace, scratch: Path) -> list[Part]:
    """The parts in the order they run: what is cheap and decides most comes first."""
    known = {
        "tests": _tests_part,
        "decode-command": _decode_command_part,
        "step": _script_part,
        "runtime": _script_part,
        "sanitizer": _sanitizer_part,
        **dict.fromkeys(_bench_names(), _bench_part),
    }
    parts = []
    for name in options.parts:
        if name not in known:
            raise SystemExit(
                f"run_gpu: a part must be one of {', '.join(known)}; got {name}."
            )
        parts.append(known[name](name, options, scratch))
    return parts


def _tests_part(name: str, options, scratch: Path) -> Part:
    path = options.out / results.file_name("gpu-tests", options.machine)
    command = (
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *(() if options.dry_run else (f"--results={path}",)),
        *shlex.split(options.tests),
    )
    # Without this the sources in the current folder would hide the installed wheel.
    return Part(name, command, options.limits[name], {"PYTHONSAFEPATH": "1"})


def _decode_command_part(name: str, options, scratch: Path) -> Part:
    command = (
        *(sys.executable, "-m", "graphsafe_gg.decode"),
        *shlex.split(options.decode),
        f"--json={scratch / 'decode.json'}",
    )
    return Part(name, command, options.limits[name], {"PYTHONSAFEPATH": "1"})


def _bench_names() -> list[str]:
    return [
        f"{suite}-{kind}" if kind else suite
        for suite in ("decode", "middle", "prefill")
        for kind in _KINDS
        if kind != "models" or suite == "decode"  # it has all of them
    ]


def _bench_part(name: str, options, scratch: Path) -> Part:
    suite, _, kind = name.partition("-")
    command = [sys.executable, str(_BENCH), f"--suite={suite}", f"--out={options.out}"]
    command.append(f"--budget={0.9 * options.limits[name]:.0f}")
    if kind:
        # The GPU is warm from the suite itself.
        command += ["--append", "--warm-up=0.15", *_KINDS[kind]]
    else:
        command.append(f"--timings=graph{'' if suite == 'prefill' else ',rotating'}")
    if options.dry_run:
        command += ["--dry-run", "--warm-up=0"]
    command += shlex.split(options.bench)
    return Part(name, tuple(command), options.limits[name])


def _script_part(name: str, options, scratch: Path) -> Part:
    script = ROOT / "benchmarks" / f"bench_{name}.py"
    command = (sys.executable, str(script), f"--out={options.out}")
    return Part(name, command, options.limits[name])


def _sanitizer_part(name: str, options, scratch: Path) -> Part:
    script = ROOT / "benchmarks" / "run_sanitizer.py"
    # racecheck takes most of it.
    limit = options.limits[name] / 2
    command = (sys.executable, str(script), f"--out={options.out}", f"--limit={limit}")
    return Part(name, command, options.limits[name])


class Runner:
    """Runs parts one by one under one deadline, with all their output in one log."""

    def __init__(self, log: Path, total_s: float, environment: dict[str, str]):
        self.outcomes: list[Outcome] = []
        self._log = log
        self._deadline = time.monotonic() + total_s
        self._environment = environment

    def run(self, part: Part) -> Outcome:
        start = time.monotonic()
        limit = min(part.limit_s, self._deadline - start - _GRACE_S)
        begin = self._log.stat().st_size if self._log.exists() else 0
        if limit <= 0:
            status = "not run: no time left"
        else:
            print(f"== {part.name} ({limit:.0f} s at most)", flush=True)
            status = self._status(part, limit)
        output = self._log.read_bytes()[begin:] if self._log.exists() else b""
        text = output.decode(errors="replace")
        outcome = Outcome(part.name, status, time.monotonic() - start, text)
        self.outcomes.append(outcome)
        print(f"== {part.name}: {status}, {outcome.seconds:.0f} s", flush=True)
        return outcome

    def _status(self, part: Part, limit_s: float) -> str:
        with self._log.open("a") as log:
            log.write(f"\n== {part.name}: {shlex.join(part.command)}\n")
            log.flush()
            try:
                process = subprocess.Popen(
                    part.command,
                    cwd=ROOT,
                    env={**self._environment, **part.environment},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return f"failed to start: {error}"
            try:
                code = process.wait(timeout=limit_s)
            except subprocess.TimeoutExpired:
                self._stop(process)
                return f"stopped after {limit_s:.0f} s"
        return "ok" if code == 0 else f"exit status {code}"

    @staticmethod
    def _stop(process: subprocess.Popen) -> None:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_GRACE_S)
                return


def install(wheel: Path, target: Path) -> None:
    """Puts the wheel alone into a folder: what it needs is on the machine."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
    command += ["--no-deps", "--no-compile", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True)


def wheel_notices(wheel: Path, target: Path) -> list[str]:
    """What tells that the wheel was not built from this tree."""
    notices = []
    for file in sorted((ROOT / "graphsafe_gg").rglob("*.py")):
        installed = target / file.relative_to(ROOT)
        if not installed.exists() or installed.read_bytes() != file.read_bytes():
            notices.append(f"{file.relative_to(ROOT)} differs in the wheel")
    stamp = wheel.parent / "wheel.json"
    built = json.loads(stamp.read_text()).get("sources") if stamp.exists() else None
    if built is None:
        notices.append(
            "wheel.json names no sources: the csrc of the wheel is not known"
        )
    elif built != sources.sources_hash(sources.NATIVE):
        notices.append("csrc differs from what the wheel was built from")
    return notices


def record_decode_command(report: Path, out: Path, facts: dict, load: dict) -> None:
    """The command's own JSON as a result file of suite decode-command."""
    found = json.loads(report.read_text())
    common = {name: found[name] for name in ("layers", "tokens", "steps", "dtype")}
    rows = [
        {
            "case": found["model"]["name"],
            **common,
            **row,
            "tolerance": found["tolerance"],
        }
        for row in found["rows"]
    ]
    document = results.document(
        "decode-command",
        rows,
        read_tb_s=round(found["read"]["gb_s"] / 1000, 4),
        **{"sm_clock_mhz": 0, "power_w": 0, **load},
        **facts,
    )
    results.write(document, out)


def summary(out: Path) -> list[str]:
    """A short line for each row of the result files that are there."""
    lines = []
    for path in sorted(out.glob("*.json")):
        document = json.loads(path.read_text())
        rows = document["rows"]
        lines.append(
            f"{path.name}: {len(rows)} rows, read {document.get('read_tb_s')} TB/s, "
            f"{document.get('sm_clock_mhz')} MHz, {document.get('power_w')} W"
        )
        if document["suite"] == "gpu-tests":
            lines += _test_lines(rows)
        elif document["suite"] == "decode-command":
            lines += [f"  {_short(row)}" for row in rows]
        elif document["suite"] in ("step", "runtime", "sanitizer"):
            lines += ["  " + _values(row) for row in rows]
        else:
            read = document["read_tb_s"]
            lines += [f"  {bench_grouped_gemm.row_line(row, read)}" for row in rows]
        failures = results.folded(document.get("failures", []))
        lines += [f"  failed: {text}" for text in failures]
        missing = document.get("missing", {})
        lines += [f"  missing: {name}: {text[:90]}" for name, text in missing.items()]
    return lines


def _test_lines(rows: list[dict]) -> list[str]:
    outcomes: dict[str, int] = {}
    for row in rows:
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    lines = ["  " + ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items()))]
    bad = [row for row in rows if row["outcome"] in ("failed", "error")]
    return lines + [
        f"  {r['outcome']} {r['test']}: {r['reason'][:120]}" for r in bad[:20]
    ]


def _values(row: dict) -> str:
    parts = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
    return " ".join(parts)[:160]


def _short(row: dict) -> str:
    kept = (
        "mode",
        "ms_per_step",
        "host_waits_per_step",
        "ratio_to_read",
        "max_rel_err",
    )
    parts = (f"{name} {row.get(name)}" for name in (*kept, "ok"))
    return ", ".join(parts)


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--parts", default="tests,decode-command,decode", help="by comma, in order")
    add(
        "--out", type=Path, default=os.environ.get("OUT"), help="folder (default: $OUT)"
    )
    add("--wheel", type=Path, help="default: the only one in dist/")
    add("--no-install", action="store_true", help="use what this Python has")
    add("--total", type=float, default=560, metavar="SECONDS", help="for everything")
    add("--limit", action="append", default=[], metavar="PART=SECONDS")
    add("--tests", default="tests -m gpu", metavar="ARGS", help="arguments of pytest")
    add("--decode", metavar="ARGS", help="arguments of graphsafe-gg decode")
    add("--bench", default="", metavar="ARGS", help="more arguments of every suite")
    add("--dry-run", action="store_true", help="rehearse on a CPU: no figures")
    options = parser.parse_args(argv)
    if options.out is None:
        parser.error("--out must name a folder where OUT is not set")
    options.out = Path(options.out).resolve()
    options.parts = [part for part in options.parts.split(",") if part]
    options.limits = {
        "tests": 300.0,
        "decode-command": 90.0,
        "step": 300.0,
        "runtime": 300.0,
        "sanitizer": 240.0,
        **dict.fromkeys(_bench_names(), 150.0),
    }
    for text in options.limit:
        name, _, seconds = text.partition("=")
        if name not in options.limits or not seconds.replace(".", "", 1).isdigit():
            parser.error(f"--limit must be PART=SECONDS; got {text}")
        options.limits[name] = float(seconds)
    if options.decode is None:
        model, device = ("Qwen3-30B-A3B --layers 8 --tokens 64", "gpu")
        if options.dry_run:
            model, device = ("Granite-3-1B-A400M --layers 1 --tokens 4", "cpu")
        options.decode = f"--model {model} --device {device} --modes sync,device"
    return options


def find_wheel(options: argparse.Namespace) -> Path:
    if options.wheel is not None:
        return options.wheel
    wheels = sorted((ROOT / "dist").glob("graphsafe_gg-*.whl"))
    if len(wheels) != 1:
        names = ", ".join(wheel.name for wheel in wheels) or "none"
        raise SystemExit(
            f"run_gpu: dist/ must hold one wheel; got {names}. Run make gpu-wheel, or "
            "pass --wheel."
        )
    return wheels[0]


def main(argv: list[str] | None = None) -> int:
    options = parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = gpu_facts.query()
    options.machine = facts["gpu"] or "dry run"
    log = options.out / "run.log"
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        notices = []
        if not (options.no_install or options.dry_run):
            wheel = find_wheel(options)
            install(wheel, scratch / "site")
            notices = wheel_notices(wheel, scratch / "site")
            environment["PYTHONPATH"] = str(scratch / "site")
        runner = Runner(log, options.total, environment)
        for part in make_parts(options, scratch):
            sampler = gpu_facts.Sampler()
            runner.run(part)
            load = sampler.median_since(0.0)
            sampler.stop()
            if part.name != "decode-command":
                continue
            about = _known(facts, options.machine)
            try:
                record_decode_command(scratch / "decode.json", options.out, about, load)
            except (OSError, KeyError, ValueError) as error:
                notices.append(f"decode-command is not recorded: {error!r}")
    report_all(options.out, runner.outcomes, notices)
    return 0 if all(outcome.status == "ok" for outcome in runner.outcomes) else 1


def _known(facts: dict, machine: str) -> dict:
    return {
        "gpu": machine,
        "driver": facts["driver"] or "none",
        "cuda": facts["cuda"] or "none",
    }


def report_all(out: Path, outcomes: list[Outcome], notices: list[str]) -> None:
    """The ends of what broke, then the table: what comes last is what is read first."""
    for outcome in outcomes:
        if outcome.status != "ok" and outcome.output:
            print(f"-- {outcome.part} ended with")
            print("\n".join(line[:200] for line in outcome.output.splitlines()[-15:]))
    print("-- results")
    print("\n".join(summary(out)))
    for notice in notices:
        print(f"notice: {notice}")
    for outcome in outcomes:
        print(f"{outcome.part:<16} {outcome.seconds:5.0f} s  {outcome.status}")


if __name__ == "__main__":
    sys.exit(main())
