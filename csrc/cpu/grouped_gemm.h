// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The products on a CPU, float32 accumulation: blocks of each group's result, shared by threads.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/workers.h"
#include "kernels/local_groups.h"
#include "kernels/problem.h"

namespace graphsafe_gg::cpu {

// Sizes are checked by the caller: none negative, sum at most m. So are the local groups. Every
// element of out is written. `bias` may be null.
void grouped_gemm(const Problem& problem, const void* lhs, const void* rhs, const void* bias,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out,
                  const Workers& workers);
void grouped_drhs(const Problem& problem, const void* lhs, const void* dout,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out,
                  const Workers& workers);

}  // namespace graphsafe_gg::cpu
