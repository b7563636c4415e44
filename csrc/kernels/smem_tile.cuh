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

// What a thread block copies: `rows` x `cols` elements exist from `src` on; up to `rows_used` rows
// (and all columns) of the tile are defined afterwards, by zeros where nothing exists.
template <typename T>
struct TileSource {
  const T* src;
  int64_t stride;  // elements from row to row
  int rows;
  int rows_used;
  int cols;
  CopyWidth width;
  uint64_t policy;
};

template <class Tile>
__device__ __forceinline__ void copy_chunk_by_4(uint32_t smem, const typename Tile::Element* src,
                                                int bytes, uint64_t policy) {
#pragma unroll
  for (int i = 0; i < kChunkBytes; i += 4) {
    const int live = bytes - i < 0 ? 0 : (bytes - i < 4 ? bytes - i : 4);
    const auto* from = reinterpret_cast<const unsigned char*>(src) + (live > 0 ? i : 0);
    ptx::cp_async_4(smem + static_cast<uint32_t>(i), from, live, policy);
  }
}

template <class Tile>
__device__ __forceinline__ void copy_chunk_by_element(uint32_t smem,
                                                      const typename Tile::Element* src,
                                                      int bytes) {
  uint32_t words[4] = {0, 0, 0, 0};
  if constexpr (sizeof(typename Tile::Element) == 2) {
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
  ptx::store_shared_16(smem, words);
}

// Starts the copy; all threads of the block take part. Asynchronous copies are complete after the
// caller's cp.async wait, all of them are visible after the barrier that follows it.
template <class Tile, int kThreads>
__device__ __forceinline__ void copy_tile(uint32_t smem,
                                          const TileSource<typename Tile::Element>& from) {
  static_assert(kThreads % Tile::kRowChunks == 0, "a thread keeps its chunk column in every pass");
  constexpr int kPassRows = kThreads / Tile::kRowChunks;
  static_assert(Tile::kNumRows % kPassRows == 0, "passes cover the tile");
  static_assert(kPassRows <= 16 && 16 % kPassRows == 0, "rows_used comes in steps of 16");
  constexpr int kPasses = Tile::kNumRows / kPassRows;
  const int chunk = static_cast<int>(threadIdx.x) % Tile::kRowChunks;
  const int first_row = static_cast<int>(threadIdx.x) / Tile::kRowChunks;
  const int cols_left = from.cols - chunk * Tile::kChunkElements;
  const int clipped = cols_left < Tile::kChunkElements ? cols_left : Tile::kChunkElements;
  const int col_bytes = (clipped < 0 ? 0 : clipped) * static_cast<int>(sizeof(*from.src));

  // Rows advance by a running pointer: products with the pass would each hold a register pair. A
  // pointer to nothing is never followed, as its byte count is 0.
  const int64_t pass_stride = kPassRows * from.stride;
  const auto for_each_pass = [&](auto copy_chunk) {
    const auto* src = from.src + first_row * from.stride + chunk * Tile::kChunkElements;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      if (pass * kPassRows >= from.rows_used) break;
      const int row = first_row + pass * kPassRows;
      copy_chunk(smem + Tile::offset(row, chunk), src, row < from.rows ? col_bytes : 0);
      src += pass_stride;
    }
  };
  if (from.width == CopyWidth::k16Bytes) {
    for_each_pass([&](uint32_t to, const auto* chunk_src, int bytes) {
      ptx::cp_async_16(to, chunk_src, bytes, from.policy);
    });
  } else if (from.width == CopyWidth::k4Bytes) {
    for_each_pass([&](uint32_t to, const auto* chunk_src, int bytes) {
      copy_chunk_by_4<Tile>(to, chunk_src, bytes, from.policy);
    });
  } else {
    for_each_pass([&](uint32_t to, const auto* chunk_src, int bytes) {
      copy_chunk_by_element<Tile>(to, chunk_src, bytes);
    });
  }
}

}  // namespace graphsafe_gg
