// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// One rectangle of a result: what a thread computes at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/vector_kernels.h"
#include "kernels/problem.h"

namespace graphsafe_gg::cpu {

// Row-major as it is stored; the product may read it transposed. Strides are in elements.
struct Operand {
  const char* data;
  int64_t stride;
  bool is_transposed;
};

// out (rows, cols) = lhs (rows, depth) rhs (depth, cols) + bias (cols)
struct Block {
  DType dtype;
  DType out_dtype;
  Operand lhs;
  Operand rhs;
  const char* bias;  // may be null
  char* out;
  int64_t out_stride;
  int64_t rows;
  int64_t cols;
  int64_t depth;
};

// What one thread computes with, and its float32 buffers, kept from block to block.
struct Scratch {
  const VectorKernels& kernels = vector_kernels();
  std::vector<float> lhs;
  std::vector<float> rhs;
  std::vector<float> out;
  std::vector<float> bias;
};

inline const char* at(const void* base, DType dtype, int64_t element) {
  return static_cast<const char*>(base) + element * size_bytes(dtype);
}

inline char* at(void* base, DType dtype, int64_t element) {
  return static_cast<char*>(base) + element * size_bytes(dtype);
}

// At least `count` floats.
inline float* room(std::vector<float>& buffer, int64_t count) {
  if (buffer.size() < static_cast<size_t>(count)) buffer.resize(static_cast<size_t>(count));
  return buffer.data();
}

// Stores sums (rows, cols), which may be the result itself, with the bias.
void finish(const Block& block, float* sums, int64_t stride, Scratch& scratch);

}  // namespace graphsafe_gg::cpu
