# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The hand-written driver declarations agree with cuda.h: constants and functions.

A wrong parameter list would not fail to link: the table is filled from dlsym.
"""

import os
import re

import pytest
from support import headers


@pytest.fixture(scope="module")
def compile_program():
    """Compiles checks after driver_agreement.h; returns the compiler's messages."""
    return headers.check_compiler(
        "driver_agreement.h",
        ["cuda.h"],
        is_required=os.environ.get("GG_REQUIRE_CUDA_HEADERS") == "1",
    )


def declared_functions():
    text = (headers.ROOT / "csrc/runtime/cuda_api.h").read_text()
    return re.findall(r'X\((\w+), "(cu\w+)"', text)


def declared_constants():
    text = (headers.ROOT / "csrc/runtime/cuda_driver.h").read_text()
    return re.findall(r"constexpr \w+ k(\w+) =", text)


def name_in_cuda_h(constant):
    """ErrorNotReady -> CUDA_ERROR_NOT_READY, EventDisableTiming -> CU_EVENT_..."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", constant).upper()
    for ours, theirs in {
        "MEM_HOST_ALLOC": "MEMHOSTALLOC",
        "DEVICE_MAP": "DEVICEMAP",
        "SWIZZLE128": "SWIZZLE_128",
        "PROMOTION256": "PROMOTION_L2_256",
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
