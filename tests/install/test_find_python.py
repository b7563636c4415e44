# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/find_python.sh: an interpreter is judged by running it."""

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/find_python.sh"
THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def find(tmp_path):
    """Runs the script with only `tmp_path/bin` and the system's shell tools on PATH."""
    (tmp_path / "bin").mkdir()

    def run(*arguments, **variables):
        return subprocess.run(
            ["sh", SCRIPT, *arguments],
            env={"PATH": f"{tmp_path / 'bin'}:{os.defpath}", "HOME": str(tmp_path)}
            | variables,
            capture_output=True,
            text=True,
        )

    return run


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_find_python_skips_a_name_that_does_not_run(find, tmp_path):
    program(tmp_path / "bin/python3.14", "echo 'not installed' >&2; exit 127")
    program(tmp_path / "bin/python3.13", f'exec "{sys.executable}" "$@"')
    done = find(THIS, THIS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == sys.executable


def test_find_python_takes_only_the_one_that_is_named(find, tmp_path):
    program(tmp_path / "bin/broken", "exit 1")
    done = find(PYTHON="broken")
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"{tmp_path / 'bin/broken'}: does not run" in done.stderr


def test_find_python_says_why_none_is_suitable(find, tmp_path):
    program(tmp_path / "bin/python3", f'exec "{sys.executable}" "$@"')
    done = find("3.97", "3.98")
    assert done.returncode == 1
    assert "a CPython from 3.97 to 3.98" in done.stderr
    assert f"{tmp_path / 'bin/python3'}: version {THIS}" in done.stderr
