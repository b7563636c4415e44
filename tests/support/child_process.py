# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Runs Python code in a fresh process."""

import os
import subprocess
import sys

import jax


def run_python(
    code: str, *, device: jax.Device | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess:
    """Runs code; with `device`, on the same platform. Does not raise if it fails."""
    variables = {**os.environ, **(env or {})}
    if device is not None:
        variables["JAX_PLATFORMS"] = "cuda" if device.platform == "gpu" else "cpu"
    return subprocess.run(
        [sys.executable, "-c", code],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        # An installed package must not need the source tree.
        cwd=os.path.dirname(os.path.abspath(__file__)),
    )


def output_of(code: str, **options) -> str:
    """Runs code that must succeed, and returns what it printed."""
    done = run_python(code, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout
