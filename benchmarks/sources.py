# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Prints the hash of the sources that a suite's figures depend on.

The hash covers paths and contents, so a checkout and a plain copy of the tree agree.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "benchmarks/results"

# Stands for what every suite has in common: the sources of the extension and kernels.
NATIVE = "native"
_NATIVE = ("csrc", "CMakeLists.txt", "cmake")
_TIMED = tuple(
    f"benchmarks/{name}"
    for name in (
        "baselines.py",
        "bench_grouped_gemm.py",
        "cuda_device.py",
        "device_kernels.cu",
        "device_types.py",
        "dlpack.py",
        "jit_step.py",
        "jobs.py",
        "peer_rows.json",
        "raw_product.py",
        "shapes.py",
        "stream_read.py",
        "timing.py",
        "workload.py",
    )
)
_TRACED = (
    "benchmarks/cupti_trace.cc",
    "benchmarks/cupti_trace.py",
    "benchmarks/moe_step.py",
    "graphsafe_gg",
)
SUITES: dict[str, tuple[str, ...]] = {
    "decode": _TIMED,
    "middle": _TIMED,
    "prefill": _TIMED,
    "cpu": (
        "benchmarks/bench_cpu.py",
        "benchmarks/host_device.py",
        "benchmarks/jit_step.py",
        "benchmarks/shapes.py",
        "benchmarks/timing.py",
        "benchmarks/workload.py",
    ),
    "decode-command": ("graphsafe_gg",),
    "step": ("benchmarks/bench_step.py", *_TRACED),
    "runtime": (
        "benchmarks/bench_runtime.py",
        "benchmarks/runtime_chain.py",
        "benchmarks/runtime_scan.py",
        "benchmarks/runtime_threads.py",
        *_TRACED,
    ),
    "sanitizer": (
        "benchmarks/run_sanitizer.py",
        "graphsafe_gg",
        "tests/conftest.py",
        "tests/gpu",
        "tests/support",
    ),
    "gpu-tests": (
        "graphsafe_gg",
        "tests/cases",
        "tests/conftest.py",
        "tests/gpu",
        "tests/support",
        "tests/unit",
    ),
}

_IGNORED_DIRS = {"__pycache__", "build", "dist"}
_IGNORED_SUFFIXES = {".pyc", ".pyo", ".so", ".o", ".fatbin", ".cubin", ".d"}


def source_files(suite: str, root: Path = ROOT) -> list[Path]:
    """The files of a suite that exist, sorted by their path in the tree."""
    named = {**SUITES, NATIVE: ()}
    if suite not in named:
        raise ValueError(
            f"sources: suite must be one of {', '.join(named)}; got {suite!r}."
        )
    found: set[Path] = set()
    for name in (*_NATIVE, *named[suite]):
        found.update(_files_below(root / name, root))
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def sources_hash(suite: str, root: Path = ROOT) -> str:
    digest = hashlib.sha256()
    for path in source_files(suite, root):
        content = path.read_bytes()
        name = path.relative_to(root).as_posix()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def stale_results(root: Path = ROOT) -> list[str]:
    """One line for each result file that was taken on other sources than the tree's."""
    lines = []
    for path in sorted((root / RESULTS).glob("*.json")):
        document = json.loads(path.read_text())
        suite, taken = document.get("suite"), document.get("sources")
        if suite not in SUITES:
            lines.append(f"{path.name}: unknown suite {suite!r}")
        elif taken != (now := sources_hash(suite, root)):
            lines.append(f"{path.name}: taken on sources {taken}, the tree has {now}")
    return lines


def _files_below(path: Path, root: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for file in path.rglob("*"):
            if file.is_file() and not _is_ignored(file.relative_to(root)):
                yield file


def _is_ignored(path: Path) -> bool:
    return path.suffix in _IGNORED_SUFFIXES or any(
        part in _IGNORED_DIRS or part.startswith(".") for part in path.parts
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", nargs="?", choices=sorted({*SUITES, NATIVE}))
    parser.add_argument(
        "--check", action="store_true", help="name the results of other sources"
    )
    parser.add_argument("--files", action="store_true", help="list the files instead")
    args = parser.parse_args(argv)
    if args.check:
        for line in stale_results():
            print(f"notice: {line}")
        return 0
    if args.suite is None:
        parser.error("name a suite, or pass --check")
    if args.files:
        for path in source_files(args.suite):
            print(path.relative_to(ROOT).as_posix())
    else:
        print(sources_hash(args.suite))
    return 0


if __name__ == "__main__":
    sys.exit(main())
