// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Results on their way out: rounding to the output type, stores at any alignment, and the zero
// tail.
#pragma once

#include <cstdint>

#include "kernels/kernel_args.h"
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

// Stores those of four packed neighbours that exist.
__device__ __forceinline__ void store_4_halves(unsigned char* to, uint2 packed, int left,
                                               const TileOutput& out) {
  auto* halves = reinterpret_cast<uint16_t*>(to);
  if (out.is_vector) {
    *reinterpret_cast<uint2*>(halves) = packed;
    return;
  }
  halves[0] = static_cast<uint16_t>(packed.x);
  if (left > 1) halves[1] = static_cast<uint16_t>(packed.x >> 16);
  if (left > 2) halves[2] = static_cast<uint16_t>(packed.y);
  if (left > 3) halves[3] = static_cast<uint16_t>(packed.y >> 16);
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
  store_4_halves(to, make_uint2(low, high), left, out);
}

// Stores what a lane holds of neighbouring m16n8 fragments: columns 2 * quad and 2 * quad + 1 of
// each, of `row` and of the row 8 below.
template <typename T, int kFrags>
__device__ __forceinline__ void store_fragments(const float (&acc)[kFrags][4], int row,
                                                int first_col, int quad, const TileOutput& out) {
  const bool is_odd = quad % 2 != 0;
  const int col = first_col + quad % 2 * 8 + quad / 2 * 4;
  unsigned char* to = out.at(row, col);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < kFrags; j += 2) {
      // Neighbouring lanes swap, so that each holds 4 columns of one fragment, not 2 of both.
      const float even[2] = {acc[j][half * 2], acc[j][half * 2 + 1]};
      const float odd[2] = {acc[j + 1][half * 2], acc[j + 1][half * 2 + 1]};
      const float got0 = __shfl_xor_sync(0xffffffffu, is_odd ? even[0] : odd[0], 1);
      const float got1 = __shfl_xor_sync(0xffffffffu, is_odd ? even[1] : odd[1], 1);
      float v[4] = {is_odd ? got0 : even[0], is_odd ? got1 : even[1], is_odd ? odd[0] : got0,
                    is_odd ? odd[1] : got1};
      const int cols_left = row < out.rows ? out.cols - col - j * 8 : 0;
      add_bias<T>(v, col + j * 8, cols_left, out);
      store_4(to + j * 8 * element_bytes(out.dtype), v, cols_left, out);
    }
    row += 8;
    to += 8 * out.row_bytes;
  }
}

// Bias of the columns that a lane has of a transposed fragment: lane / 4 and the one 8 further.
template <typename T>
__device__ __forceinline__ void load_transposed_bias(float (&bias)[2], const TileOutput& out) {
  const int col = static_cast<int>(threadIdx.x) % 32 / 4;
  const T* from = static_cast<const T*>(out.bias);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool exists = from != nullptr && col + i * 8 < out.cols;
    bias[i] = exists ? ptx::to_float(from[col + i * 8]) : -0.0f;  // which changes nothing
  }
}

// Stores m16n8 fragments of the transposed tile: 16 columns, and 8 rows for each fragment.
template <typename T, int kFrags>
__device__ __forceinline__ void store_transposed_f32(const float (&acc)[kFrags][4],
                                                     const TileOutput& out) {
  float bias[2];
  load_transposed_bias<T>(bias, out);
  const int col = static_cast<int>(threadIdx.x) % 32 / 4;
  int row = static_cast<int>(threadIdx.x) % 4 * 2;
  unsigned char* to = out.at(row, col);
#pragma unroll
  for (int j = 0; j < kFrags; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      auto* const floats = reinterpret_cast<float*>(to + i * out.row_bytes);
      if (row + i < out.rows && col < out.cols) floats[0] = acc[j][i] + bias[0];
      if (row + i < out.rows && col + 8 < out.cols) floats[8] = acc[j][2 + i] + bias[1];
    }
    row += 8;
    to += 8 * out.row_bytes;
  }
}

// The same for 16-bit results, whose columns come in runs of 4 that exist or do not.
template <typename T, int kFrags>
__device__ __forceinline__ void store_transposed_16bit(const float (&acc)[kFrags][4],
                                                       const TileOutput& out) {
  float bias[2];
  load_transposed_bias<T>(bias, out);
  const bool is_bf16 = out.dtype == DType::kBF16;
  const int quad = static_cast<int>(threadIdx.x) % 4;
  const bool is_odd = quad % 2 != 0;
  const int col = quad % 2 * 8 + quad / 2 * 4;
  int row = static_cast<int>(threadIdx.x) % 32 / 4;
  unsigned char* to = out.at(row, col);
#pragma unroll
  for (int j = 0; j < kFrags; ++j) {
    if (j * 8 >= out.rows) return;
    uint32_t half[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float v0 = acc[j][i * 2] + bias[i];
      const float v1 = acc[j][i * 2 + 1] + bias[i];
      half[i] = ptx::transpose_8x8(is_bf16 ? ptx::pack_bf16(v0, v1) : ptx::pack_f16(v0, v1));
    }
    // Neighbouring lanes swap, so that each holds 4 columns of one half, not 2 of both.
    const uint32_t got = __shfl_xor_sync(0xffffffffu, is_odd ? half[0] : half[1], 1);
    const uint2 words = is_odd ? make_uint2(got, half[1]) : make_uint2(half[0], got);
    if (row < out.rows && col < out.cols) store_4_halves(to, words, 4, out);
    row += 8;
    to += 8 * out.row_bytes;
  }
}

// Those threads of the grid that do a work together.
struct GridThreads {
  int64_t index;
  int64_t count;

  // `thread` of `block_threads` in each block.
  __device__ static GridThreads of(int thread, int block_threads) {
    return {static_cast<int64_t>(blockIdx.x) * block_threads + thread,
            static_cast<int64_t>(gridDim.x) * block_threads};
  }
};

// Zeros in [begin, end), which are multiples of 2.
__device__ __forceinline__ void store_zeros(unsigned char* begin, unsigned char* end,
                                            const GridThreads& threads) {
  if (begin >= end) return;
  const int64_t bytes = end - begin;
  int64_t head = (16 - static_cast<int64_t>(reinterpret_cast<uint64_t>(begin) % 16)) % 16;
  head = head < bytes ? head : bytes;
  const int64_t body = (bytes - head) / 16;
  for (int64_t i = threads.index; i < body; i += threads.count) {
    reinterpret_cast<uint4*>(begin + head)[i] = make_uint4(0, 0, 0, 0);
  }
  const int64_t tail = head + body * 16;
  if (threads.index < 16) {
    const bool is_head = threads.index < 8;
    const int64_t first = is_head ? threads.index * 2 : tail + (threads.index - 8) * 2;
    const int64_t limit = is_head ? head : bytes;
    if (first < limit) *reinterpret_cast<uint16_t*>(begin + first) = 0;
  }
}

// [begin, end), in elements of the result.
struct Written {
  int64_t begin;
  int64_t end;
};

__device__ __forceinline__ void store_zeros_around(const Written& written, int64_t total,
                                                   const KernelArgs& args,
                                                   const GridThreads& threads) {
  const int bytes = element_bytes(static_cast<DType>(args.out_dtype));
  auto* const out = static_cast<unsigned char*>(args.out);
  store_zeros(out, out + written.begin * bytes, threads);
  store_zeros(out + written.end * bytes, out + total * bytes, threads);
}

}  // namespace graphsafe_gg
