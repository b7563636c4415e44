# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The hand-written cuBLASLt declarations agree with cublasLt.h, where that is found.

A wrong parameter list would not fail to link: the table is filled from dlsym.
"""

import re

import pytest
from support import headers

CONSTANTS = {
    "kSuccess": "CUBLAS_STATUS_SUCCESS",
    "kAllocFailed": "CUBLAS_STATUS_ALLOC_FAILED",
    "kNotSupported": "CUBLAS_STATUS_NOT_SUPPORTED",
    "kTypeF32": "CUDA_R_32F",
    "kTypeF16": "CUDA_R_16F",
    "kTypeBF16": "CUDA_R_16BF",
    "kComputeF32": "CUBLAS_COMPUTE_32F",
    "kComputeF32Pedantic": "CUBLAS_COMPUTE_32F_PEDANTIC",
    "kOpNone": "CUBLAS_OP_N",
    "kOpTranspose": "CUBLAS_OP_T",
    "kMatmulDescTransposeA": "CUBLASLT_MATMUL_DESC_TRANSA",
    "kMatmulDescTransposeB": "CUBLASLT_MATMUL_DESC_TRANSB",
    "kLayoutCols": "CUBLASLT_MATRIX_LAYOUT_COLS",
    "kPreferenceMaxWorkspaceBytes": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
    "kPreferenceReductionSchemeMask": "CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK",
    "kPreferenceMinAlignmentA": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES",
    "kPreferenceMinAlignmentB": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES",
    "kPreferenceMinAlignmentC": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES",
    "kPreferenceMinAlignmentD": "CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES",
    "kReductionSchemeNone": "CUBLASLT_REDUCTION_SCHEME_NONE",
}
RESULT = "cublasLtMatmulHeuristicResult_t"
FIELDS = {
    "algo": "algo",
    "workspace_bytes": "workspaceSize",
    "state": "state",
    "waves_count": "wavesCount",
    "reserved": "reserved",
}


@pytest.fixture(scope="module")
def compile_program():
    """Compiles checks after cublaslt_agreement.h; returns the compiler's messages."""
    wanted = ["cublasLt.h", "cuda_runtime_api.h"]
    return headers.check_compiler("cublaslt_agreement.h", wanted, is_required=False)


def text_of(name):
    return (headers.ROOT / "csrc/runtime" / name).read_text()


def test_cublaslt_declarations_every_constant_is_checked():
    declared = re.findall(r"constexpr \w+ (k\w+) =", text_of("cublaslt_types.h"))
    assert set(declared) == set(CONSTANTS)


def test_cublaslt_declarations_functions(compile_program):
    declared = re.findall(r'X\((\w+), "(cublasLt\w+)"', text_of("cublaslt_api.h"))
    assert len(declared) > 10
    checks = [f"CHECK_FUNCTION({member}, {symbol});" for member, symbol in declared]
    assert compile_program(*checks) == ""


def test_cublaslt_declarations_constants(compile_program):
    checks = [f"CHECK_CONSTANT({ours}, {name});" for ours, name in CONSTANTS.items()]
    assert compile_program(*checks) == ""


def test_cublaslt_declarations_structures(compile_program):
    checks = [
        "CHECK_SIZE(Algo, cublasLtMatmulAlgo_t);",
        f"CHECK_SIZE(HeuristicResult, {RESULT});",
        *(f"CHECK_OFFSET({RESULT}, {a}, {b});" for a, b in FIELDS.items()),
    ]
    assert compile_program(*checks) == ""


def test_cublaslt_declarations_a_difference_is_seen(compile_program):
    messages = compile_program(
        "CHECK_FUNCTION(create, cublasLtMatmulAlgoCheck);",
        "CHECK_FUNCTION(get_version, cublasLtGetStatusName);",
        "CHECK_CONSTANT(kOpNone, CUBLAS_OP_T);",
        f"CHECK_SIZE(Algo, {RESULT});",
    )
    assert "CublasLtApi::create differs from cublasLtMatmulAlgoCheck" in messages
    assert "CublasLtApi::get_version differs from cublasLtGetStatusName" in messages
    assert "lt::kOpNone differs from CUBLAS_OP_T" in messages
    assert "lt::Algo and cublasLtMatmulHeuristicResult_t differ in size" in messages
    assert messages.count("error:") == 4
