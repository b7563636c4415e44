# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The hash of a suite's sources: what enters it and what does not."""

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import sources  # noqa: E402


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "CMakeLists.txt": "project",
        "csrc/a.cc": "a",
        "csrc/deep/b.cu": "b",
        "graphsafe_gg/api.py": "api",
        "benchmarks/bench_cpu.py": "bench",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_named_files_exist_in_the_tree():
    tests = ("tests/",)  # optional: not every suite of tests has every folder
    for suite, names in sources.SUITES.items():
        for name in names:
            if not name.startswith(tests):
                assert (ROOT / name).exists(), f"{suite} names {name}"


def test_plain_copy_has_the_same_hash(tree, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy") / "tree"
    shutil.copytree(tree, copy)
    assert sources.sources_hash("cpu", tree) == sources.sources_hash("cpu", copy)


@pytest.mark.parametrize(
    "name", ["csrc/__pycache__/x.pyc", "csrc/deep/x.so", "csrc/.hidden", "README.md"]
)
def test_build_outputs_and_unrelated_files_do_not_count(tree, name):
    before = sources.sources_hash("cpu", tree)
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("noise")
    assert sources.sources_hash("cpu", tree) == before


@pytest.mark.parametrize(
    ("name", "suites"),
    [
        ("csrc/deep/b.cu", {"cpu", "gpu-tests", "decode"}),
        ("csrc/new.h", {"cpu", "gpu-tests", "decode"}),
        ("CMakeLists.txt", {"cpu", "gpu-tests", "decode"}),
        ("graphsafe_gg/api.py", {"gpu-tests"}),
        ("benchmarks/bench_cpu.py", {"cpu"}),
    ],
)
def test_a_changed_file_changes_its_suites_only(tree, name, suites):
    every = {"cpu", "gpu-tests", "decode"}
    before = {suite: sources.sources_hash(suite, tree) for suite in every}
    (tree / name).write_text("changed")
    changed = {s for s in every if sources.sources_hash(s, tree) != before[s]}
    assert changed == suites


def test_moved_content_changes_the_hash(tree):
    before = sources.sources_hash("cpu", tree)
    (tree / "csrc/a.cc").rename(tree / "csrc/c.cc")
    assert sources.sources_hash("cpu", tree) != before


def test_check_names_results_of_other_sources(tree):
    folder = tree / sources.RESULTS
    folder.mkdir(parents=True)
    now = sources.sources_hash("cpu", tree)
    for name, taken in (("cpu-a.json", now), ("cpu-b.json", "0" * 16)):
        (folder / name).write_text(json.dumps({"suite": "cpu", "sources": taken}))
    (line,) = sources.stale_results(tree)
    assert line == f"cpu-b.json: taken on sources {'0' * 16}, the tree has {now}"


def test_unknown_suite_is_named():
    with pytest.raises(ValueError, match=r"suite must be one of .*; got 'speed'"):
        sources.source_files("speed")


def test_command_prints_the_hash(capsys):
    assert sources.main(["cpu"]) == 0
    assert capsys.readouterr().out.strip() == sources.sources_hash("cpu")
