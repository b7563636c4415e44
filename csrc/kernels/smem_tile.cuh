// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A tile of an operand in shared memory, and how it gets there from any address.
#pragma once

#include <cstdint>

#include "kernels/ptx.cuh"

namespace graphsafe_gg {

constexpr int kChunkBytes = 16;

// Rows are kept as 16-byte chunks; a chunk's place in its row is XORed with a key of the row, so
// that readers that walk down rows meet all 32 banks. kKeyShift picks the row bits of the key: 0
// where neighbouring readers take neighbouring rows, 2 where they take every fourth row.
template <typename T, int kRows, int kCols, int kKeyShift>
struct SmemTile {
  using Element = T;
  static constexpr int kKeyBits = kKeyShift;
  static constexpr int kNumRows = kRows;
  static constexpr int kRowBytes = kCols * static_cast<int>(sizeof(T));
  static constexpr int kRowChunks = kRowBytes / kChunkBytes;
  static constexpr int kChunkElements = kChunkBytes / static_cast<int>(sizeof(T));
  static constexpr int kBytes = kRows * kRowBytes;
  static_assert(kRowBytes % 128 == 0, "the XOR permutes the 8 chunks of a 128-byte line of banks");

  __device__ static uint32_t row_key(int row) {
    return (static_cast<uint32_t>(row) >> kKeyShift) & 7u;
  }
  __device__ static uint32_t offset(int row, int chunk) {
    return static_cast<uint32_t>(row * kRowBytes) +
           ((static_cast<uint32_t>(chunk) ^ row_key(row)) * kChunkBytes);
  }
};

// The widest copy that base address and row stride allow for every row. It never changes a value.
enum class CopyWidth { k16Bytes, k4Bytes, kElement };

__device__ __forceinline__ CopyWidth copy_width(const void* base, int64_t row_bytes) {
  const uint64_t bits = reinterpret_cast<uint64_t>(base) | static_cast<uint64_t>(row_bytes);
  if (bits % 16 == 0) return CopyWidth::k16Bytes;
  return bits % 4 == 0 ? CopyWidth::k4Bytes : CopyWidth::kElement;
}

// Copies tiles of one operand; all threads of the block take part. A copy is complete after the
// caller's cp.async wait and visible after the barrier that follows it.
template <class Tile, int kThreads, bool kIsStreamed>
class TileCopier {
  using T = typename Tile::Element;

 public:
  // `stride`: elements from row to row of the operand.
  __device__ TileCopier(const void* base, int64_t stride)
      : base_(static_cast<const T*>(base)),
        stride_(stride),
        width_(copy_width(base, stride * static_cast<int64_t>(sizeof(T)))) {}

  // The next copy takes the tile whose first element is at `offset`.
  __device__ void move_to(int64_t offset) {
    src_ = base_ + offset + first_row() * stride_ + chunk() * Tile::kChunkElements;
  }
  __device__ void advance_cols(int cols) { src_ += cols; }
  __device__ void advance_rows(int rows) { src_ += rows * stride_; }

  // `rows` x `cols` elements exist. Up to `rows_used` rows, a multiple of 16, and all columns are
  // defined afterwards, by zeros where nothing exists.
  __device__ __forceinline__ void copy(uint32_t smem, int rows, int rows_used, int cols) const {
    const uint32_t to = smem + Tile::offset(first_row(), chunk());
    if (width_ != CopyWidth::k16Bytes) {
      copy_narrow(smem, rows, rows_used, cols);
    } else if (rows == Tile::kNumRows && cols == kNumCols) {
      copy_full(to);
    } else {
      copy_clipped(to, rows, rows_used, cols);
    }
  }

 private:
  static constexpr int kNumCols = Tile::kRowChunks * Tile::kChunkElements;
  static constexpr int kPassRows = kThreads / Tile::kRowChunks;
  static constexpr int kPasses = Tile::kNumRows / kPassRows;
  static_assert(kThreads % Tile::kRowChunks == 0, "a thread keeps its chunk column in every pass");
  static_assert(Tile::kNumRows % kPassRows == 0, "passes cover the tile");

  __device__ static int chunk() { return static_cast<int>(threadIdx.x) % Tile::kRowChunks; }
  __device__ static int first_row() { return static_cast<int>(threadIdx.x) / Tile::kRowChunks; }

  // The address of a pass relative to that of the first one; a constant where the key repeats.
  __device__ static uint32_t pass_address(uint32_t first, int pass) {
    constexpr bool kKeyRepeats = kPassRows % (8 << Tile::kKeyBits) == 0;
    if constexpr (kKeyRepeats)
      return first + static_cast<uint32_t>(pass * kPassRows * Tile::kRowBytes);
    return first - Tile::offset(first_row(), chunk()) +
           Tile::offset(first_row() + pass * kPassRows, chunk());
  }

  // Rows advance by a running pointer: products with the pass would each hold a register pair.
  __device__ __forceinline__ void copy_full(uint32_t to) const {
    const T* src = src_;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      if constexpr (kIsStreamed) {
        ptx::cp_async_16(pass_address(to, pass), src, ptx::policy_evict_first());
      } else {
        ptx::cp_async_16(pass_address(to, pass), src);
      }
      src += kPassRows * stride_;
    }
  }

  // 16-byte rows and addresses leave no chunk that exists in part.
  __device__ __forceinline__ void copy_clipped(uint32_t to, int rows, int rows_used,
                                               int cols) const {
    const int rows_here = chunk() * Tile::kChunkElements < cols ? rows - first_row() : 0;
    const T* src = src_;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      if (pass * kPassRows >= rows_used) break;
      ptx::cp_async_16_or_zero(pass_address(to, pass), src, pass * kPassRows < rows_here);
      src += kPassRows * stride_;
    }
  }

  __device__ __forceinline__ void copy_narrow(uint32_t smem, int rows, int rows_used,
                                              int cols) const {
    const int cols_here = cols - chunk() * Tile::kChunkElements;
    const int bytes = (cols_here < 0 ? 0 : cols_here) * static_cast<int>(sizeof(T));
    const T* src = src_;
#pragma unroll 1
    for (int row = first_row(); row - first_row() < rows_used; row += kPassRows) {
      const uint32_t to = smem + Tile::offset(row, chunk());
      const int row_bytes = row < rows ? bytes : 0;
      if (width_ == CopyWidth::k4Bytes) {
        copy_chunk_by_4(to, src, row_bytes);
      } else {
        copy_chunk_by_element(to, src, row_bytes);
      }
      src += kPassRows * stride_;
    }
  }

  __device__ static void copy_chunk_by_4(uint32_t to, const T* src, int bytes) {
    const auto* from = reinterpret_cast<const unsigned char*>(src);
#pragma unroll
    for (int i = 0; i < kChunkBytes; i += 4) {
      const int left = bytes - i < 0 ? 0 : bytes - i;
      ptx::cp_async_4(to + static_cast<uint32_t>(i), from + i, left < 4 ? left : 4);
    }
  }

  __device__ static void copy_chunk_by_element(uint32_t to, const T* src, int bytes) {
    uint32_t words[4] = {0, 0, 0, 0};
    if constexpr (sizeof(T) == 2) {
      const auto* from = reinterpret_cast<const uint16_t*>(src);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const uint32_t half = i * 2 < bytes ? from[i] : 0u;
        words[i / 2] |= half << (i % 2 * 16);
      }
    } else {
      const auto* from = reinterpret_cast<const uint32_t*>(src);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = i * 4 < bytes ? from[i] : 0u;
    }
    ptx::store_shared_16(to, words);
  }

  const T* const base_;
  const int64_t stride_;
  const CopyWidth width_;
  const T* src_ = nullptr;
};

}  // namespace graphsafe_gg
