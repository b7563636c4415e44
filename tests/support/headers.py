# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Compiles checks of hand-written declarations against CUDA's own headers."""

import os
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def include_folders():
    """Folders that may hold CUDA's headers: a toolkit's, then pip packages'."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield pathlib.Path(home) / "include"
    if nvcc := shutil.which("nvcc"):
        yield pathlib.Path(nvcc).resolve().parents[1] / "include"
    yield pathlib.Path("/usr/local/cuda/include")
    site_packages = [pathlib.Path(sysconfig.get_path("platlib"))]
    site_packages += sorted(ROOT.glob("build/env-*/lib/python3*/site-packages"))
    for folder in site_packages:
        yield folder / "nvidia/cu13/include"
        yield folder / "nvidia/cublas/include"
    yield pathlib.Path("/usr/include")


def compiler():
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def check_compiler(header, wanted, *, is_required):
    """Returns a function that compiles checks after `header`, of tests/support, and
    gives the compiler's messages. Without the `wanted` headers the test is skipped, or
    fails where they are required."""
    found = [
        next((f for f in include_folders() if (f / w).exists()), w) for w in wanted
    ]
    missing = [str(folder) for folder in found if not isinstance(folder, pathlib.Path)]
    if (cxx := compiler()) is None:
        missing.append("a C++ compiler")
    if missing:
        text = " and ".join(missing)
        if is_required:
            pytest.fail(f"{text} must be installed here; it was not found")
        pytest.skip(f"{text} was not found")

    command = [cxx, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    command += [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests'}"]
    command += [f"-isystem{folder}" for folder in dict.fromkeys(found)]

    def run(*checks):
        text = "\n".join((f'#include "support/{header}"', *checks, ""))
        return subprocess.run(
            command, input=text, capture_output=True, text=True
        ).stderr

    return run
