# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Importing where it cannot work says what to do."""

import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_import_in_a_checkout_says_to_start_elsewhere(tmp_path):
    """The sources alone hold no extension, and hide a package that is installed."""
    no_extension = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(
        ROOT / "graphsafe_gg", tmp_path / "graphsafe_gg", ignore=no_extension
    )
    done = subprocess.run(
        [sys.executable, "-c", "import graphsafe_gg"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: graphsafe_gg: the compiled extension must lie in the package's "
        f"folder; got none in {tmp_path}/graphsafe_gg. Start Python outside the "
        "checkout with the package installed, for example by `make install`."
    )
