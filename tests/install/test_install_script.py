# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/install.py names what it built from."""

import pathlib
import runpy
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_install_script_names_the_native_sources():
    """The hash beside a wheel is the one that results carry."""
    script = runpy.run_path(str(ROOT / "scripts/install.py"))
    command = [sys.executable, ROOT / "benchmarks/sources.py", "native"]
    printed = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    assert len(printed) == 16
    assert script["native_sources"]() == printed
