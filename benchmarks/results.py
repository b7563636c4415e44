# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Writes and validates the result files of benchmarks/results: schema
graphsafe_gg/results/1, one file a suite and GPU. design/measurement.md says what the
fields mean."""

import argparse
import datetime
import importlib.metadata
import json
import math
import re
import sys
import xml.etree.ElementTree
from pathlib import Path

import sources

SCHEMA = "graphsafe_gg/results/1"
DIRECTORY = Path(__file__).resolve().parent / "results"

_NUMBER = (int, float)
_HEADER = {
    "schema": str,
    "suite": str,
    "sources": str,
    "gpu": (str, type(None)),
    "driver": (str, type(None)),
    "cuda": (str, type(None)),
    "jax": str,
    "date": str,
    "sm_clock_mhz": (*_NUMBER, type(None)),
    "power_w": (*_NUMBER, type(None)),
    "read_tb_s": (*_NUMBER, type(None)),
    "rows": list,
}
# "machine" stands in for the GPU of a CPU suite, "missing" names the baselines that did
# not run and why, "failures" the parts that broke, "versions" the baselines' packages.
_OPTIONAL_HEADER = {
    "machine": dict,
    "missing": dict,
    "failures": list,
    "versions": dict,
}
_TIMED_ROW = {
    "case": str,
    "mode": str,
    "product": str,
    "g": int,
    "m": int,
    "k": int,
    "n": int,
    "dtype": str,
    "layout": str,
    "sizes": str,
    "timing": str,
    "setting": str,
    "ms": _NUMBER,
    "spread_ms": _NUMBER,
    "tb_s": _NUMBER,
    "tflops": _NUMBER,
    "rel_err": _NUMBER,
    "baselines_ms": dict,
}
# "rows_checked": how many rows of the result rel_err covers, where not all of them.
_OPTIONAL_TIMED_ROW = {
    "rows_checked": int,
    "calls": int,
    "sm_clock_mhz": _NUMBER,
    "power_w": _NUMBER,
}
_TEST_ROW = {"test": str, "outcome": str, "seconds": _NUMBER, "reason": str}
_VALUE_ROW = {"case": str, "value": _NUMBER, "unit": str}
_CHOICES = {
    "mode": {"auto", "device", "sync", "async"},
    "product": {"fwd", "dlhs", "drhs"},
    "dtype": {"bfloat16", "float16", "float32"},
    "layout": {"gkn", "gnk"},
    "timing": {"graph", "rotating", "jit", "cpu"},
    "outcome": {"passed", "failed", "skipped", "error", "xfailed", "xpassed"},
}
# What one row is about; no file says the same thing twice.
_KEY = ("case", "mode", "product", "dtype", "layout", "sizes", "timing", "setting")
_CPU_SUITES = {"cpu"}
# Suites whose rows have fields of their own: a case, and what was found.
_FREE_SUITES = {"decode-command", "step", "sanitizer"}
# What these need of the GPU beside its name, driver and CUDA version.
_LOAD_FIELDS = {
    "gpu-tests": ("sm_clock_mhz", "power_w"),
    "step": (),
    "runtime": (),
    "sanitizer": (),
}


def file_name(suite: str, machine: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", machine.lower().replace("nvidia", "")).strip("-")
    return f"{suite}-{slug}.json"


def document(suite: str, rows: list[dict], **header) -> dict:
    """A result of this tree, of today. `header` holds what the machine says."""
    return {
        "schema": SCHEMA,
        "suite": suite,
        "sources": header.pop("sources", None) or sources.sources_hash(suite),
        "gpu": header.pop("gpu", None),
        "driver": header.pop("driver", None),
        "cuda": header.pop("cuda", None),
        "jax": header.pop("jax", None) or importlib.metadata.version("jax"),
        "date": datetime.date.today().isoformat(),
        "sm_clock_mhz": header.pop("sm_clock_mhz", None),
        "power_w": header.pop("power_w", None),
        "read_tb_s": header.pop("read_tb_s", None),
        **header,
        "rows": rows,
    }


def write(doc: dict, directory: Path = DIRECTORY) -> Path:
    """Writes the document under its own name. Raises ValueError if it is not valid."""
    if problems := validate(doc):
        raise ValueError("results: " + "\n".join(problems))
    machine = doc["gpu"] or doc["machine"]["name"]
    path = Path(directory) / file_name(doc["suite"], machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_one_row_a_line(doc))
    return path


def folded(failures: list[str]) -> list[str]:
    """Failures of the same reason as one line: a broken kernel fails every row."""
    counts: dict[str, tuple[str, int]] = {}
    for text in failures:
        label, _, reason = text.partition(": ")
        first, count = counts.get(reason or label, (text, 0))
        counts[reason or label] = (first, count + 1)
    return [
        first if count == 1 else f"{first} (and {count - 1} more)"
        for first, count in counts.values()
    ]


def earlier(directory: Path, suite: str, machine: str) -> dict | None:
    """The document that is there for the suite and machine, if any."""
    path = Path(directory) / file_name(suite, machine)
    return json.loads(path.read_text()) if path.exists() else None


def merge(old: dict, new: dict) -> dict:
    """The new document with the rows of an older one that it does not replace.

    Raises:
      ValueError: they were taken on other sources or another machine.
    """
    same = ("suite", "sources", "gpu", "driver", "cuda", "jax")
    if differing := [field for field in same if old[field] != new[field]]:
        raise ValueError(
            f"results: rows can be added to a file of the same {', '.join(same)} only; "
            f"{', '.join(differing)} differ. Write to another folder."
        )

    replaced = {_row_key(new["suite"], row) for row in new["rows"]}
    kept = [r for r in old["rows"] if _row_key(new["suite"], r) not in replaced]
    reads = [doc["read_tb_s"] for doc in (old, new) if doc["read_tb_s"] is not None]
    return {
        **new,
        "read_tb_s": max(reads, default=None),
        "missing": {**old.get("missing", {}), **new.get("missing", {})},
        "failures": [*old.get("failures", []), *new.get("failures", [])],
        "rows": [*kept, *new["rows"]],
    }


def _row_key(suite: str, row: dict) -> tuple:
    """What no two rows of a document share."""
    fields = {"gpu-tests": ("test",), "runtime": ("case",)}.get(suite, _KEY)
    return tuple(row.get(field) for field in fields)


def validate(doc: dict) -> list[str]:
    """What is wrong with a document; empty when nothing is."""
    problems = _check_fields("document", doc, _HEADER, _OPTIONAL_HEADER)
    if problems:
        return problems
    if doc["schema"] != SCHEMA:
        problems.append(f"schema must be {SCHEMA}; got {doc['schema']}")
    if doc["suite"] not in sources.SUITES:
        problems.append(f"suite must be a known one; got {doc['suite']}")
    if not re.fullmatch(r"[0-9a-f]{16}", doc["sources"]):
        problems.append(f"sources must be 16 hex digits; got {doc['sources']}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", doc["date"]):
        problems.append(f"date must be YYYY-MM-DD; got {doc['date']}")
    problems += _check_machine(doc)
    seen: set[tuple] = set()
    for index, row in enumerate(doc["rows"]):
        where = f"rows[{index}]"
        if doc["suite"] in _FREE_SUITES:
            has_case = isinstance(row, dict) and isinstance(row.get("case"), str)
            problems += [] if has_case else [f"{where} lacks case"]
            continue
        if doc["suite"] == "gpu-tests":
            problems += _check_row(where, row, _TEST_ROW, {})
        elif doc["suite"] == "runtime":
            problems += _check_row(where, row, _VALUE_ROW, {})
        else:
            problems += _check_timed_row(where, row)
        key = _row_key(doc["suite"], row)
        if key in seen:
            problems.append(f"{where} repeats {key}")
        seen.add(key)
    return problems


def _check_machine(doc: dict) -> list[str]:
    if doc["suite"] in _CPU_SUITES:
        machine = doc.get("machine", {})
        return (
            [] if machine.get("name") else ["machine must have a name: no GPU has one"]
        )
    every = ("sm_clock_mhz", "power_w", "read_tb_s")
    needed = ("gpu", "driver", "cuda", *_LOAD_FIELDS.get(doc["suite"], every))
    return [f"{field} must be set" for field in needed if doc[field] is None]


def _check_timed_row(where: str, row: dict) -> list[str]:
    problems = _check_row(where, row, _TIMED_ROW, _OPTIONAL_TIMED_ROW)
    if problems:
        return problems
    if row["ms"] <= 0:
        problems.append(f"{where}.ms must be positive; got {row['ms']}")
    for name, ms in row["baselines_ms"].items():
        if not _is_number(ms) or ms <= 0:
            problems.append(
                f"{where}.baselines_ms[{name!r}] must be positive; got {ms}"
            )
    return problems


def _check_row(where: str, row: dict, required: dict, optional: dict) -> list[str]:
    problems = _check_fields(where, row, required, optional)
    for field, choices in _CHOICES.items():
        if field in required and not problems and row[field] not in choices:
            problems.append(
                f"{where}.{field} must be one of {sorted(choices)}; got {row[field]}"
            )
    return problems


def _check_fields(where: str, found, required: dict, optional: dict) -> list[str]:
    if not isinstance(found, dict):
        return [f"{where} must be an object"]
    problems = [f"{where} lacks {name}" for name in required if name not in found]
    known = {**required, **optional}
    for name, value in found.items():
        if name not in known:
            problems.append(f"{where} has an unknown field {name}")
        elif not isinstance(value, known[name]) or isinstance(value, bool):
            problems.append(f"{where}.{name} has type {type(value).__name__}")
        elif isinstance(value, float) and not math.isfinite(value):
            problems.append(f"{where}.{name} must be finite; got {value}")
    return problems


def _is_number(value) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def _one_row_a_line(doc: dict) -> str:
    """JSON whose diffs are readable: one header field and one row a line."""
    head = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in doc.items() if k != "rows"]
    rows = ",\n".join("  " + json.dumps(row) for row in doc["rows"])
    head.append(f' "rows": [\n{rows}\n ]' if rows else ' "rows": []')
    return "{\n" + ",\n".join(head) + "\n}\n"


def rows_from_junit(path: Path) -> list[dict]:
    """Rows of suite gpu-tests from pytest's --junitxml file."""
    rows = []
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        outcome, reason = "passed", ""
        for tag, name in (
            ("skipped", "skipped"),
            ("failure", "failed"),
            ("error",) * 2,
        ):
            if (found := case.find(tag)) is not None:
                outcome, reason = name, found.get("message") or (found.text or "")
                if found.get("type") == "pytest.xfail":
                    outcome = "xfailed"
        module = (case.get("classname") or "").replace(".", "/")
        rows.append(
            {
                "test": f"{module}.py::{case.get('name')}"
                if module
                else case.get("name"),
                "outcome": outcome,
                "seconds": round(float(case.get("time") or 0), 3),
                "reason": " ".join(reason.split())[:300],
            }
        )
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Validates result files.")
    parser.add_argument("files", nargs="*", type=Path)
    args = parser.parse_args(argv)
    is_bad = False
    for path in args.files or sorted(DIRECTORY.glob("*.json")):
        for problem in validate(json.loads(path.read_text())):
            is_bad = True
            print(f"{path.name}: {problem}")
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
