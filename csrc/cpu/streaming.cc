// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/streaming.h"

#include <algorithm>

namespace graphsafe_gg::cpu {
namespace {

// Rows of rhs (depth, cols) at a time: their widened copy stays in the first-level cache.
constexpr int64_t kDepthChunk = 16;
// Of rhs (cols, depth): the depth of a panel, and its columns at a time.
constexpr int64_t kDepthPanel = 1024;
constexpr int64_t kColumnChunk = 4;

constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

void zero_padding(float* base, int64_t rows, int64_t cols, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    std::fill(base + r * stride + cols, base + (r + 1) * stride, 0.0f);
  }
}

// Weights (depth, cols): kDepthChunk rows of them at a time.
void sum_by_rows(const Block& b, Scratch& scratch, float* sums, int64_t width) {
  const VectorKernels& kernels = scratch.kernels;
  const int64_t item = size_bytes(b.dtype);
  TileProduct tile{};
  tile.a = room(scratch.lhs, b.rows * kDepthChunk);
  tile.a_stride = kDepthChunk;
  tile.b = room(scratch.rhs, kDepthChunk * width);
  tile.b_stride = width;
  tile.c = sums;
  tile.c_stride = width;
  tile.rows = b.rows;
  tile.cols = width;
  tile.next_stride = b.rhs.stride * item;
  tile.next_item_bytes = item;
  for (int64_t d = 0; d < b.depth; d += kDepthChunk) {
    tile.depth = std::min(kDepthChunk, b.depth - d);
    tile.is_first = d == 0;
    kernels.widen(b.dtype, at(b.lhs.data, b.dtype, d), b.lhs.stride, b.rows, tile.depth,
                  scratch.lhs.data(), kDepthChunk);
    const char* rhs = at(b.rhs.data, b.dtype, d * b.rhs.stride);
    kernels.widen(b.dtype, rhs, b.rhs.stride, tile.depth, b.cols, scratch.rhs.data(), width);
    const bool has_whole_next = d + 2 * kDepthChunk <= b.depth;
    tile.next = has_whole_next ? rhs + kDepthChunk * tile.next_stride : nullptr;
    kernels.accumulate(tile);
  }
}

// Weights (cols, depth): kColumnChunk columns of a panel at a time.
void sum_by_columns(const Block& b, Scratch& scratch, float* sums, int64_t width) {
  const VectorKernels& kernels = scratch.kernels;
  const int64_t item = size_bytes(b.dtype);
  for (int64_t d = 0; d < b.depth; d += kDepthPanel) {
    const int64_t depth = std::min(kDepthPanel, b.depth - d);
    const int64_t padded = round_up(depth, kDepthTile);
    float* lhs = room(scratch.lhs, b.rows * padded);
    float* rhs = room(scratch.rhs, kColumnChunk * padded);
    zero_padding(lhs, b.rows, depth, padded);
    zero_padding(rhs, kColumnChunk, depth, padded);
    kernels.widen(b.dtype, at(b.lhs.data, b.dtype, d), b.lhs.stride, b.rows, depth, lhs, padded);
    TileProduct tile{};
    tile.a = lhs;
    tile.a_stride = padded;
    tile.b = rhs;
    tile.b_stride = padded;
    tile.c_stride = width;
    tile.rows = b.rows;
    tile.depth = padded;
    tile.is_first = d == 0;
    tile.next_stride = b.rhs.stride * item;
    tile.next_item_bytes = item;
    for (int64_t c = 0; c < b.cols; c += kColumnChunk) {
      tile.c = sums + c;
      tile.cols = std::min(kColumnChunk, b.cols - c);
      const char* weights = at(b.rhs.data, b.dtype, c * b.rhs.stride + d);
      kernels.widen(b.dtype, weights, b.rhs.stride, tile.cols, depth, rhs, padded);
      const bool has_whole_next = c + 2 * kColumnChunk <= b.cols;
      tile.next = has_whole_next ? weights + kColumnChunk * tile.next_stride : nullptr;
      kernels.dot(tile);
    }
  }
}

}  // namespace

void multiply_streaming(const Block& b, Scratch& scratch) {
  const int64_t width = round_up(b.cols, kColumnTile);
  float* sums = room(scratch.out, b.rows * width);
  if (b.depth == 0) std::fill_n(sums, b.rows * width, 0.0f);
  if (b.rhs.is_transposed) {
    sum_by_columns(b, scratch, sums, width);
  } else {
    sum_by_rows(b, scratch, sums, width);
  }
  finish(b, sums, width, scratch);
}

}  // namespace graphsafe_gg::cpu
