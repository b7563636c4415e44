# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""design/migrating.md: its snippets run, and its claims hold while they do."""

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("flax", reason="flax is not installed: the extra 'test' has it")

PAGE = pathlib.Path(__file__).resolve().parents[2] / "design/migrating.md"


def test_migrating_snippets_run(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.S | re.M)
    program = "\n".join(blocks)
    assert program.count("close(") >= 6
    (tmp_path / "page.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
