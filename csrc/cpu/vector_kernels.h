// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The inner loops of the CPU products, in one version for each instruction set worth having.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/problem.h"

namespace graphsafe_gg::cpu {

// Columns of padded float32 buffers come in multiples of this.
constexpr int64_t kColumnTile = 32;
// Likewise for the depth of both operands of `dot`, padded with zeros.
constexpr int64_t kDepthTile = 16;

// c (rows, cols) = a b, added to c unless it is the first. float32 only.
struct TileProduct {
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  int64_t rows;
  int64_t cols;
  int64_t depth;
  bool is_first;
  // What the next product reads, to be fetched meanwhile; may be null.
  const char* next;
  int64_t next_stride;      // bytes from row to row
  int64_t next_item_bytes;  // of one element
};

struct VectorKernels {
  // Rectangles: `rows` of `cols` elements; strides in elements.
  void (*widen)(DType dtype, const void* in, int64_t in_stride, int64_t rows, int64_t cols,
                float* out, int64_t out_stride);
  void (*narrow)(DType dtype, const float* in, int64_t in_stride, int64_t rows, int64_t cols,
                 void* out, int64_t out_stride);
  // b is (depth, cols); cols a multiple of kColumnTile. Each element sums in order of depth.
  void (*accumulate)(const TileProduct& product);
  // b is (cols, depth); depth a multiple of kDepthTile.
  void (*dot)(const TileProduct& product);
  const char* name;
  // Up to these rows a group, streaming its weights is faster than BLAS; [operands of 16 bits]
  // [weights transposed]. design/cpu.md has the figures.
  int64_t most_streamed_rows[2][2];
};

// Those that this processor can run, the best first.
const std::vector<const VectorKernels*>& usable_vector_kernels();
const VectorKernels& vector_kernels();

inline void to_float(DType dtype, const void* in, int64_t count, float* out) {
  vector_kernels().widen(dtype, in, count, 1, count, out, count);
}

inline void from_float(DType dtype, const float* in, int64_t count, void* out) {
  vector_kernels().narrow(dtype, in, count, 1, count, out, count);
}

}  // namespace graphsafe_gg::cpu
