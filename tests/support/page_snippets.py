# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The Python blocks of a page, run as a user would: in a folder of their own."""

import re
import subprocess
import sys
from pathlib import Path


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)


def output_of_snippet(program: str, folder: Path) -> str:
    """Runs it with warnings as errors, and returns what it printed."""
    (folder / "snippet.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-W", "error", "snippet.py"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
