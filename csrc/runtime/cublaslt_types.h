// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The part of cuBLASLt's C interface that is used here, declared by hand so that the host code
// builds without a toolkit. tests/unit/test_cublaslt_declarations checks it against cublasLt.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphsafe_gg::lt {

// Made and destroyed by the library, whose versions differ in what lies behind them.
using Handle = struct OpaqueHandle*;          // cublasLtHandle_t
using MatmulDesc = struct OpaqueMatmulDesc*;  // cublasLtMatmulDesc_t
using Layout = struct OpaqueLayout*;          // cublasLtMatrixLayout_t
using Preference = struct OpaquePreference*;  // cublasLtMatmulPreference_t

using Status = int;  // cublasStatus_t

struct Algo {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};

struct HeuristicResult {  // cublasLtMatmulHeuristicResult_t
  Algo algo;
  size_t workspace_bytes;
  Status state;
  float waves_count;
  int reserved[4];
};

constexpr Status kSuccess = 0;
constexpr Status kAllocFailed = 3;
constexpr Status kNotSupported = 15;

constexpr int kTypeF32 = 0;
constexpr int kTypeF16 = 2;
constexpr int kTypeBF16 = 14;

constexpr int kComputeF32 = 68;
constexpr int kComputeF32Pedantic = 69;

constexpr int32_t kOpNone = 0;
constexpr int32_t kOpTranspose = 1;

constexpr int kMatmulDescTransposeA = 3;
constexpr int kMatmulDescTransposeB = 4;

constexpr int kLayoutCols = 3;

constexpr int kPreferenceMaxWorkspaceBytes = 1;
constexpr int kPreferenceReductionSchemeMask = 3;
constexpr int kPreferenceMinAlignmentA = 5;
constexpr int kPreferenceMinAlignmentB = 6;
constexpr int kPreferenceMinAlignmentC = 7;
constexpr int kPreferenceMinAlignmentD = 8;
constexpr uint32_t kReductionSchemeNone = 0;

}  // namespace graphsafe_gg::lt
