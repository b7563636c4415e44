// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/block.h"

namespace graphsafe_gg::cpu {

void finish(const Block& b, float* sums, int64_t stride, Scratch& scratch) {
  if (b.bias != nullptr) {
    float* bias = room(scratch.bias, b.cols);
    scratch.kernels.widen(b.dtype, b.bias, b.cols, 1, b.cols, bias, b.cols);
    for (int64_t r = 0; r < b.rows; ++r) {
      for (int64_t c = 0; c < b.cols; ++c) sums[r * stride + c] += bias[c];
    }
  }
  if (static_cast<void*>(sums) == b.out) return;
  scratch.kernels.narrow(b.out_dtype, sums, stride, b.rows, b.cols, b.out, b.out_stride);
}

}  // namespace graphsafe_gg::cpu
