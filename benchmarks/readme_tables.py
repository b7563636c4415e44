# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The README's tables of figures, from the result files and nothing else.

Each stands between `<!-- NAME: begin -->` and `<!-- NAME: end -->`; the script writes
them anew.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable

import results

README = results.DIRECTORY.parents[1] / "README.md"
_PEERS = results.DIRECTORY.parent / "peer_rows.json"

_MODES = ("sync", "pr2213", "async", "device")
_STEPS = {
    "qwen3-30b/1t": "Qwen3-30B-A3B, {layers} layers, 1 token",
    "qwen3-30b/64t": "Qwen3-30B-A3B, {layers} layers, 64 tokens",
    "deepseek-v3-ep8/1t": "DeepSeek-V3 EP8, {layers} layers, 1 token",
    "deepseek-v3-ep8/64t": "DeepSeek-V3 EP8, {layers} layers, 64 tokens",
    "mixtral-8x7b/8192t": "Mixtral-8x7B, {layers} layers, 8192 tokens",
    "qwen3-30b/8192t": "Qwen3-30B-A3B, {layers} layers, 8192 tokens",
}
_PRODUCTS = {
    ("decode", "mixtral-8x7b/w1/64t"): "Mixtral w1, 64 tokens",
    ("decode", "qwen3-30b/w1/64t"): "Qwen3-30B w1, 64 tokens",
    ("decode", "qwen3-30b/w2/64t"): "Qwen3-30B w2, 64 tokens",
    ("decode", "gpt-oss-120b/w1/64t"): "gpt-oss-120b w1, 64 tokens",
    ("middle", "qwen3-30b/w1/1024t"): "Qwen3-30B w1, 1024 tokens",
    ("middle", "mixtral-8x7b/w1/512t"): "Mixtral w1, 512 tokens",
    ("prefill", "mixtral-8x7b/w1/8192t"): "Mixtral w1, 8192 tokens",
    ("prefill", "qwen3-30b/w1/8192t"): "Qwen3-30B w1, 8192 tokens",
}
_BASELINES = {
    "stream_read": "plain read",
    "torch grouped_mm": "`grouped_mm`",
    "cublas loop": "cuBLAS loop",
}


def step_table() -> str:
    """Milliseconds a step in each mode."""
    wanted = {"command_buffers": True, "shared_expert": False}
    lines = []
    for case, label in _STEPS.items():
        rows = [_row("step", case=case, mode=mode, **wanted) for mode in _MODES]
        name = label.format(layers=rows[0]["layers"])
        lines.append([name, *(f"{row['ms']:.2f}" for row in rows)])
    return _markdown(["step", *(f"`{mode}`" for mode in _MODES)], lines)


def product_table() -> str:
    """Milliseconds of the forward product, beside what ran in the same turns."""
    peers = {row["case"]: row for row in json.loads(_PEERS.read_text())["rows"]}
    wanted = {
        "product": "fwd",
        "layout": "gkn",
        "sizes": "dirichlet",
        "timing": "graph",
        "setting": "10 calls a graph",
    }
    lines = []
    for (suite, case), label in _PRODUCTS.items():
        row = _row(suite, case=case, **wanted)
        shape = ", ".join(str(row[name]) for name in "gmkn")
        figures = [row["ms"], *(row["baselines_ms"][name] for name in _BASELINES)]
        figures.append(peers[case]["best_peer_ms"])
        lines.append([f"{label} ({shape})", *(f"{ms:.3f}" for ms in figures)])
    first = "product (groups, rows, k, n)"
    return _markdown([first, "ours", *_BASELINES.values(), "best of others"], lines)


TABLES: dict[str, Callable[[], str]] = {"step": step_table, "products": product_table}


def filled(text: str) -> str:
    """The text with each table as the result files have it."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(
                f"readme_tables: README must have the marks of table {name} once."
            )
        head, rest = text.split(begin)
        text = head + begin + table() + end + rest.split(end)[1]
    return text


def _row(suite: str, **fields) -> dict:
    path = results.DIRECTORY / results.file_name(suite, "NVIDIA H200")
    rows = json.loads(path.read_text())["rows"]
    (found,) = (row for row in rows if fields.items() <= row.items())
    return found


def _markdown(head: list[str], lines: Iterable[list[str]]) -> str:
    every = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in every)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args(argv)
    README.write_text(filled(README.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
