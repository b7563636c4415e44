# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The hand-written driver declarations agree with cuda.h: constants and functions.

A wrong parameter list would not fail to link: the table is filled from dlsym.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def include_folders():
    """Folders that may hold cuda.h: a toolkit's, then pip packages'."""
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
    yield pathlib.Path("/usr/include")


def compiler():
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


@pytest.fixture(scope="module")
def compile_program():
    """Compiles checks after driver_agreement.h; returns the compiler's messages."""
    include = next((f for f in include_folders() if (f / "cuda.h").exists()), None)
    cxx = compiler()
    if include is None or cxx is None:
        missing = "cuda.h" if include is None else "a C++ compiler"
        if os.environ.get("GG_REQUIRE_CUDA_HEADERS") == "1":
            pytest.fail(f"{missing} must be installed here; it was not found")
        pytest.skip(f"{missing} was not found")

    command = [cxx, "-std=c++17", "-fsyntax-only", "-x", "c++", "-"]
    command += [f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'tests'}", "-isystem", str(include)]

    def run(*checks):
        text = "\n".join(('#include "support/driver_agreement.h"', *checks, ""))
        return subprocess.run(
            command, input=text, capture_output=True, text=True
        ).stderr

    return run


def declared_functions():
    text = (ROOT / "csrc/runtime/cuda_api.h").read_text()
    return re.findall(r'X\((\w+), "(cu\w+)"', text)


def declared_constants():
    text = (ROOT / "csrc/runtime/cuda_driver.h").read_text()
    return re.findall(r"constexpr \w+ k(\w+) =", text)


def name_in_cuda_h(constant):
    """ErrorNotReady -> CUDA_ERROR_NOT_READY, EventDisableTiming -> CU_EVENT_..."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", constant).upper()
    for ours, theirs in {
        "MEM_HOST_ALLOC": "MEMHOSTALLOC",
        "DEVICE_MAP": "DEVICEMAP",
    }.items():
        words = words.replace(ours, theirs)
    return ("CUDA_" if words.startswith(("ERROR", "SUCCESS")) else "CU_") + words


def test_driver_declarations_functions(compile_program):
    functions = declared_functions()
    assert len(functions) > 20
    checks = [f"CHECK_FUNCTION({member}, {symbol});" for member, symbol in functions]
    assert compile_program(*checks) == ""


def test_driver_declarations_constants(compile_program):
    constants = declared_constants()
    assert len(constants) > 15
    checks = [f"CHECK_CONSTANT(k{name}, {name_in_cuda_h(name)});" for name in constants]
    assert compile_program(*checks) == ""


def test_driver_declarations_a_difference_is_seen(compile_program):
    messages = compile_program(
        "CHECK_FUNCTION(init, cuCtxSynchronize);",
        "CHECK_CONSTANT(kErrorNotReady, CUDA_SUCCESS);",
    )
    assert "CudaApi::init differs from cuCtxSynchronize" in messages
    assert "cuda::kErrorNotReady differs from CUDA_SUCCESS" in messages
    assert messages.count("error:") == 2
