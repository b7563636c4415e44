// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The kernel behind a faked cuBLASLt GEMM: d = op(a) op(b), column-major, accumulated in float32.
#pragma once

#include <cstdint>

#include "kernels/problem.h"
#include "runtime/cuda_driver.h"

namespace graphsafe_gg::testing {

struct LtShape {
  int64_t m;  // rows of d
  int64_t n;  // columns of d
  int64_t k;
  bool transpose_a;
  bool transpose_b;
};

struct LtMatmul {
  LtShape shape;
  DType dtype;
  DType out_dtype;
  const void* a;
  const void* b;
  void* d;
  int64_t num_steps;
};

// On the current device of the simulated driver.
cuda::Result launch_lt_matmul(const LtMatmul& args, CUstream stream);

}  // namespace graphsafe_gg::testing
