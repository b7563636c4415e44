// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Results on their way out: rounding to the output type, stores at any alignment, and the zero
// tail.
#pragma once

#include <cstdint>

#include "kernels/problem.h"
#include "kernels/ptx.cuh"

namespace graphsafe_gg {

__host__ __device__ __forceinline__ int element_bytes(DType dtype) {
  return dtype == DType::kF32 ? 4 : 2;
}

// Where a tile's results go. `is_vector` says that every 4 columns from a multiple of 4 on may be
// stored at once.
struct TileOutput {
  unsigned char* base;  // first element of the tile
  int64_t row_bytes;    // from row to row of the whole result
  const void* bias;     // of the tile's columns, in the operands' type; may be null
  int rows;
  int cols;
  DType dtype;
  bool is_vector;

  __device__ unsigned char* at(int row, int col) const {
    return base + row * row_bytes + col * element_bytes(dtype);
  }
};

__device__ __forceinline__ bool can_store_vectors(const void* base, int64_t stride, DType dtype) {
  const auto vector_bytes = static_cast<uint64_t>(4 * element_bytes(dtype));
  return reinterpret_cast<uint64_t>(base) % vector_bytes == 0 && stride % 4 == 0;
}

// Adds the bias to those of four neighbouring columns that exist.
template <typename T>
__device__ __forceinline__ void add_bias(float (&v)[4], int col, int left, const TileOutput& out) {
  if (out.bias == nullptr) return;
  const T* bias = static_cast<const T*>(out.bias) + col;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < left) v[i] += ptx::to_float(bias[i]);
  }
}

// Stores those of four neighbouring columns of one row that exist, `left` or all of them.
__device__ __forceinline__ void store_4(unsigned char* to, const float (&v)[4], int left,
                                        const TileOutput& out) {
  if (left <= 0) return;
  if (out.dtype == DType::kF32) {
    auto* floats = reinterpret_cast<float*>(to);
    if (out.is_vector) {
      *reinterpret_cast<float4*>(floats) = make_float4(v[0], v[1], v[2], v[3]);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < left) floats[i] = v[i];
    }
    return;
  }
  const bool is_bf16 = out.dtype == DType::kBF16;
  const uint32_t low = is_bf16 ? ptx::pack_bf16(v[0], v[1]) : ptx::pack_f16(v[0], v[1]);
  const uint32_t high = is_bf16 ? ptx::pack_bf16(v[2], v[3]) : ptx::pack_f16(v[2], v[3]);
  auto* halves = reinterpret_cast<uint16_t*>(to);
  if (out.is_vector) {
    *reinterpret_cast<uint2*>(halves) = make_uint2(low, high);
    return;
  }
  halves[0] = static_cast<uint16_t>(low);
  if (left > 1) halves[1] = static_cast<uint16_t>(low >> 16);
  if (left > 2) halves[2] = static_cast<uint16_t>(high);
  if (left > 3) halves[3] = static_cast<uint16_t>(high >> 16);
}

// Zeros in [begin, end), spread over all blocks; both are multiples of 2.
__device__ __forceinline__ void store_zeros(unsigned char* begin, unsigned char* end) {
  if (begin >= end) return;
  const auto thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto num_threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t bytes = end - begin;
  int64_t head = (16 - static_cast<int64_t>(reinterpret_cast<uint64_t>(begin) % 16)) % 16;
  head = head < bytes ? head : bytes;
  const int64_t body = (bytes - head) / 16;
  for (int64_t i = thread; i < body; i += num_threads) {
    reinterpret_cast<uint4*>(begin + head)[i] = make_uint4(0, 0, 0, 0);
  }
  const int64_t tail = head + body * 16;
  if (thread < 16) {
    const int64_t first = thread < 8 ? thread * 2 : tail + (thread - 8) * 2;
    const int64_t limit = thread < 8 ? head : bytes;
    if (first < limit) *reinterpret_cast<uint16_t*>(begin + first) = 0;
  }
}

}  // namespace graphsafe_gg
