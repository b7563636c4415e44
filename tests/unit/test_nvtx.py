# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""GG_NVTX=1 puts a range around each handler call; without it no library is opened."""

import os
import shutil
import subprocess

import pytest
from support import child_process

LIBRARY = """
#include <stdio.h>
#include <stdlib.h>
static void note(const char* text) {
  FILE* log = fopen(getenv("NVTX_LOG"), "a");
  fprintf(log, "%s\\n", text);
  fclose(log);
}
int nvtxRangePushA(const char* name) { note(name); return 0; }
int nvtxRangePop(void) { note("pop"); return 0; }
"""
CALL = """
import jax.numpy as jnp
import graphsafe_gg as gg
gg.grouped_gemm(jnp.ones((4, 2)), jnp.ones((1, 2, 3)), jnp.array([4]))
print(gg.stats()["config"]["GG_NVTX"])
"""


@pytest.fixture
def library(tmp_path):
    """A library under the name of NVTX's that writes down what it is told."""
    compiler = shutil.which("cc") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "fake_nvtx.c"
    source.write_text(LIBRARY)
    target = tmp_path / "libnvtx3interop.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", target], check=True)
    return tmp_path


# As where pip has installed none of CUDA's packages.
HIDE_PACKAGES = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "nvidia" else found(name)
import graphsafe_gg
importlib.util.find_spec = found
"""


def run(folder, before="", **variables):
    """What the call printed and warned, and what the library was told."""
    log = folder / "log"
    path = os.pathsep.join([str(folder), os.environ.get("LD_LIBRARY_PATH", "")])
    done = child_process.run_python(
        before + CALL,
        env={
            "LD_LIBRARY_PATH": path,
            "NVTX_LOG": str(log),
            "JAX_PLATFORMS": "cpu",
            **variables,
        },
    )
    assert done.returncode == 0, done.stderr
    told = log.read_text().split() if log.exists() else []
    return done.stdout.strip(), done.stderr, told


def test_nvtx_range_bears_the_name_of_the_handler(library):
    printed, _, told = run(library, GG_NVTX="1")
    assert (printed, told) == ("True", ["grouped_gemm_cpu", "pop"])


def test_nvtx_is_off_by_default(library):
    printed, _, told = run(library)
    assert (printed, told) == ("False", [])


def test_nvtx_without_a_library_warns_and_works(tmp_path):
    (tmp_path / "libnvtx3interop.so.1").write_text("no library")
    (tmp_path / "libnvToolsExt.so.1").write_text("no library")
    printed, warning, _ = run(tmp_path, HIDE_PACKAGES, GG_NVTX="1")
    assert printed == "True"
    assert "GG_NVTX=1 needs libnvtx3interop.so.1" in warning
