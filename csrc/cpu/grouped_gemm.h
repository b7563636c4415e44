// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The products on a CPU: one BLAS call per group and block, float32 accumulation.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/local_groups.h"
#include "kernels/problem.h"

namespace graphsafe_gg::cpu {

// Fortran sgemm with 32-bit integers, as scipy exports it. Set once, before the first call.
using Sgemm = void(char* transa, char* transb, int* m, int* n, int* k, float* alpha, float* a,
                   int* lda, float* b, int* ldb, float* beta, float* c, int* ldc);
void set_sgemm(Sgemm* sgemm);

// Sizes are checked by the caller: none negative, sum at most m. So are the local groups. Every
// element of out is written. `bias` may be null.
void grouped_gemm(const Problem& problem, const void* lhs, const void* rhs, const void* bias,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out);
void grouped_drhs(const Problem& problem, const void* lhs, const void* dout,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out);

}  // namespace graphsafe_gg::cpu
