# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The GPU tests marked `sanitizer` under each tool of compute-sanitizer.

Writes suite sanitizer, a row a tool. Each test runs with one allocation an operand, so
that the first byte past one is seen. A finding is in its tool's row, and makes the exit
status 1.
"""

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gpu_facts
import results

ROOT = Path(__file__).resolve().parent.parent
_OURS = "--kernel-name=kernel_substring=gg_"
TOOLS = {
    # Driver calls of other packages that fail are theirs; ours raise.
    "memcheck": (_OURS, "--report-api-errors=no"),
    # Checks every kernel: beside cuBLASLt's unchecked ones the tool itself breaks.
    "racecheck": (),
    "synccheck": (_OURS,),
    # It sees no store of cuBLASLt's, so a copy of such a result must not count.
    "initcheck": (_OURS, "--check-api-memory-access=no"),
}
_FOUND = 9  # exit status of the sanitizer when it finds something
_COUNTS = (
    re.compile(r"ERROR SUMMARY: (\d+) errors?"),
    re.compile(r"RACECHECK SUMMARY: (\d+) hazards? displayed"),
)
_FINDING = re.compile(
    r"========= +(?:Error|Warning|Invalid|Uninitialized|Race|Barrier).*"
)


@dataclasses.dataclass(frozen=True)
class Run:
    """What one tool and the tests under it printed."""

    tool: str
    exit: int  # -1: out of time
    seconds: float
    output: str

    def row(self) -> dict:
        """-1 errors where the tool gave no count."""
        counts = [int(n) for pattern in _COUNTS for n in pattern.findall(self.output)]
        passed = re.search(r"(\d+) passed", self.output)
        finding = _FINDING.search(self.output)
        return {
            "case": self.tool,
            "errors": sum(counts) if counts else -1,
            "tests": int(passed[1]) if passed else 0,
            "exit": self.exit,
            "seconds": round(self.seconds, 1),
            "options": " ".join(TOOLS[self.tool]),
            "finding": finding[0].lstrip("= ")[:200] if finding else "",
        }


def run_tool(sanitizer: str, tool: str, tests: list[str], limit_s: float) -> Run:
    command = [sanitizer, f"--tool={tool}", f"--error-exitcode={_FOUND}"]
    command += [*TOOLS[tool], "--print-limit=5"]
    command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "sanitizer", *tests]
    environment = {
        **os.environ,
        # XLA's own pool would put several operands into one allocation.
        "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
        # The sources in the current folder would hide the installed wheel.
        "PYTHONSAFEPATH": "1",
    }
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
        )
        code, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, output = -1, late.stdout or b""
    return Run(tool, code, time.monotonic() - start, output.decode(errors="replace"))


def is_clean(row: dict) -> bool:
    return row["errors"] == 0 and row["exit"] == 0 and row["tests"] > 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tools", default=",".join(TOOLS), help="by comma")
    parser.add_argument("--tests", nargs="*", default=["tests/gpu"])
    parser.add_argument("--limit", type=float, default=60, help="seconds a tool")
    options = parser.parse_args(argv)
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        raise SystemExit(
            "run_sanitizer: compute-sanitizer must be on PATH; it is not. Install the "
            "CUDA toolkit."
        )
    rows = []
    for tool in options.tools.split(","):
        run = run_tool(sanitizer, tool, options.tests, options.limit)
        rows.append(run.row())
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"sanitizer-{tool}.log").write_text(run.output)
        print(rows[-1], flush=True)
    facts = gpu_facts.query()
    results.write(results.document("sanitizer", rows, **facts), options.out)
    return 0 if all(map(is_clean, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
