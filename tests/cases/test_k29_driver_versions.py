# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K29: a driver that is too old or lacks a function; drivers of stub functions.

P-090 and P-091 do not apply: no mode needs cuBLAS, and which one was loaded or why none
is used stands in `stats()` (tests/sim/test_sim_host_size_launch.py).
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
from support.child_process import run_python

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYMBOLS = re.findall(r'"(cu[A-Z]\w*)"', (ROOT / "csrc/runtime/cuda_api.h").read_text())
PROGRAM = """
import jax.numpy as jnp
import graphsafe_gg as gg
from graphsafe_gg import raw

try:
    raw.Slot(num_groups=4)
except Exception as error:
    print(type(error).__name__, error)
print(gg.grouped_gemm(jnp.ones((3, 2)), jnp.ones((1, 2, 5)), jnp.array([3])).sum())
"""


@pytest.fixture
def driver(tmp_path):
    """Makes a libcuda.so.1 of a version, without one function; returns its folder."""
    compiler = shutil.which(os.environ.get("CXX") or "c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler to make a stub of the driver with")

    def build(version, without=None):
        kept = {*SYMBOLS, "cuDriverGetVersion"} - {without, None}
        source = "".join(
            f"int {name}(int* out) {{ return 0; }}\n"
            for name in sorted(kept - {"cuDriverGetVersion"})
        )
        source += (
            f"int cuDriverGetVersion(int* out) {{ *out = {version}; return 0; }}\n"
        )
        library = tmp_path / "libcuda.so.1"
        command = [compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
        source = f'extern "C" {{\n{source}}}\n'
        subprocess.run(command, input=source, text=True, check=True)
        return str(tmp_path)

    return build


@pytest.mark.parametrize(
    ("version", "without", "text"),
    [
        (13000, SYMBOLS[-1], f"must provide {SYMBOLS[-1]}; this one does not"),
        (12020, None, "must support CUDA 12.3 or newer; got 12.2"),
    ],
)
def test_p092_driver_that_lacks_something(driver, version, without, text):
    """P-092: named in the error, no crash, and the CPU goes on working."""
    env = {"LD_LIBRARY_PATH": driver(version, without), "JAX_PLATFORMS": "cpu"}
    done = run_python(PROGRAM, env=env)
    assert done.returncode == 0, done.stderr
    error, total = done.stdout.splitlines()
    assert text in error
    assert not error.startswith("AttributeError")
    assert total == "30.0"
