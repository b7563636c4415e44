// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Tile arithmetic for 16-bit operands on the tensor cores. Each element of c is one chain of
// m16n8k16 steps in ascending k, whatever the tile shape: its bits do not depend on the
// configuration.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/ptx.cuh"
#include "kernels/smem_tile.cuh"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

// kAIsKRows: the tile of a is stored as (k, m) instead of (m, k).
// kBIsKRows: the tile of b is stored as (k, n) instead of (n, k).
template <typename T, bool kAIsKRows, bool kBIsKRows, int kBlockM, int kBlockN, int kBlockK,
          int kThreads>
class MmaCore {
 public:
  using Element = T;
  using TileA = SmemTile<T, kAIsKRows ? kBlockK : kBlockM, kAIsKRows ? kBlockM : kBlockK, 0>;
  using TileB = SmemTile<T, kBIsKRows ? kBlockK : kBlockN, kBIsKRows ? kBlockN : kBlockK, 0>;

  __device__ MmaCore()
      : lane_(static_cast<int>(threadIdx.x) % 32),
        warp_m_(static_cast<int>(threadIdx.x) / 32 / kWarpsN * kWarpM),
        warp_n_(static_cast<int>(threadIdx.x) / 32 % kWarpsN * kWarpN),
        a_offset_(kAIsKRows ? lane_offset<TileA, false>(0, warp_m_ / 8)
                            : lane_offset<TileA, true>(warp_m_, 0)),
        b_offset_(kBIsKRows ? lane_offset<TileB, true>(0, warp_n_ / 8)
                            : lane_offset<TileB, false>(warp_n_, 0)) {}

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kFragsM; ++i) {
#pragma unroll
      for (int j = 0; j < kFragsN; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) acc_[i][j][e] = 0.0f;
      }
    }
  }

  // Fragments of 16 rows or 16 k without a live row or k are neither read nor multiplied.
  __device__ __forceinline__ void multiply(uint32_t smem_a, uint32_t smem_b, int m_live,
                                           int k_live) {
    const uint32_t a_lane = smem_a + a_offset_;
    const uint32_t b_lane = smem_b + b_offset_;
    const int live_frags = (m_live - warp_m_ + 15) / 16;
    if (k_live == kBlockK) {
      multiply_step<kFragsM>(a_lane, b_lane, live_frags);
    } else if (live_frags > 0) {
      multiply_tail(a_lane, b_lane, live_frags, k_live);
    }
  }

  __device__ void store(const TileOutput& out) const {
#pragma unroll
    for (int i = 0; i < kFragsM; ++i) {
      if (warp_m_ + i * 16 >= out.rows) break;
      store_fragments<T>(acc_[i], warp_m_ + i * 16 + lane_ / 4, warp_n_, lane_ % 4, out);
    }
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kWarpsM = kBlockM >= 128 ? kBlockM / 64 : 1;
  static constexpr int kWarpsN = kWarps / kWarpsM;
  static constexpr int kWarpM = kBlockM / kWarpsM;
  static constexpr int kWarpN = kBlockN / kWarpsN;
  static constexpr int kFragsM = kWarpM / 16;
  static constexpr int kFragsN = kWarpN / 8;
  static_assert(sizeof(T) == 2, "m16n8k16 takes 16-bit operands");
  static_assert(kWarpsM * kWarpM == kBlockM && kWarpsN * kWarpN == kBlockN &&
                    kWarpsM * kWarpsN == kWarps,
                "the warps cover the tile once");
  static_assert(kWarpM % 16 == 0, "a warp's rows are whole m16 fragments");
  static_assert(kWarpN % 16 == 0, "one ldmatrix brings two n8 fragments");
  static_assert(kBlockK % 16 == 0, "a stage is whole k16 steps");
  static_assert(
      (kWarpM & (kWarpM - 1)) == 0 && (kWarpN & (kWarpN - 1)) == 0,
      "the chunks of a warp's fragments differ only in bits that its first one has clear");
  static_assert(TileA::kBytes % 1024 == 0 && TileB::kBytes % 1024 == 0,
                "chunk bits of an address are those of its offset");

  // Address bits in which the chunk of a fragment's column differs from that of its first one.
  __device__ static constexpr uint32_t chunk_bits(int col) {
    return static_cast<uint32_t>(col / TileA::kChunkElements * kChunkBytes);
  }

  // Address of the lane's row in the fragment at (row 0, chunk 0) of the warp. Another fragment
  // lies `row * kRowBytes` further and has its even chunk XORed in: both are constants of the
  // unrolled loops, so that one register serves a whole stage. ldmatrix wants matrices in the order
  // (m, k) low-low, high-low, low-high, high-high for a and (n, k) low-low, low-high, high-low,
  // high-high for b: kRowsFirst says that the index that changes first runs along the rows in
  // memory.
  template <class Tile, bool kRowsFirst>
  __device__ uint32_t lane_offset(int row, int chunk) const {
    const int lane_row = kRowsFirst ? lane_ % 16 : lane_ % 8 + lane_ / 16 * 8;
    const int lane_chunk = kRowsFirst ? lane_ / 16 : lane_ / 8 % 2;
    return Tile::offset(row + lane_row, chunk + lane_chunk);
  }

  __device__ __forceinline__ void load_a(uint32_t (&a)[4], uint32_t a_lane, int i, int k) const {
    const uint32_t from =
        kAIsKRows ? (a_lane ^ chunk_bits(i * 16)) + static_cast<uint32_t>(k * TileA::kRowBytes)
                  : (a_lane ^ chunk_bits(k)) + static_cast<uint32_t>(i * 16 * TileA::kRowBytes);
    ptx::load_matrix_x4<kAIsKRows>(a, from);
  }

  __device__ __forceinline__ void load_b(uint32_t (&b)[kFragsN / 2][4], uint32_t b_lane,
                                         int k) const {
#pragma unroll
    for (int j = 0; j < kFragsN / 2; ++j) {
      const uint32_t from =
          kBIsKRows ? (b_lane ^ chunk_bits(j * 16)) + static_cast<uint32_t>(k * TileB::kRowBytes)
                    : (b_lane ^ chunk_bits(k)) + static_cast<uint32_t>(j * 16 * TileB::kRowBytes);
      ptx::load_matrix_x4<kBIsKRows>(b[j], from);
    }
  }

  __device__ __forceinline__ void multiply_row(int i, const uint32_t (&a)[4],
                                               const uint32_t (&b)[kFragsN / 2][4]) {
#pragma unroll
    for (int j = 0; j < kFragsN; ++j) {
      ptx::mma<T>(acc_[i][j], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }

  // A whole k-step for exactly kFrags live fragments of rows: no branches inside, and fragments are
  // read one k16 step ahead of the arithmetic.
  template <int kFrags>
  __device__ __forceinline__ void multiply_step(uint32_t a_lane, uint32_t b_lane, int live_frags) {
    if constexpr (kFrags > 0) {
      if (live_frags < kFrags) {
        multiply_step<kFrags - 1>(a_lane, b_lane, live_frags);
        return;
      }
      uint32_t a[2][kFrags][4];
      uint32_t b[2][kFragsN / 2][4];
      load_b(b[0], b_lane, 0);
#pragma unroll
      for (int i = 0; i < kFrags; ++i) load_a(a[0][i], a_lane, i, 0);
#pragma unroll
      for (int k = 0; k < kBlockK; k += 16) {
        const int now = k / 16 % 2;
        if (k + 16 < kBlockK) {
          load_b(b[1 - now], b_lane, k + 16);
#pragma unroll
          for (int i = 0; i < kFrags; ++i) load_a(a[1 - now][i], a_lane, i, k + 16);
        }
#pragma unroll
        for (int i = 0; i < kFrags; ++i) multiply_row(i, a[now][i], b[now]);
      }
    }
  }

  __device__ __forceinline__ void multiply_tail(uint32_t a_lane, uint32_t b_lane, int live_frags,
                                                int k_live) {
#pragma unroll
    for (int k = 0; k < kBlockK; k += 16) {
      if (k >= k_live) break;
      uint32_t b[kFragsN / 2][4];
      load_b(b, b_lane, k);
#pragma unroll
      for (int i = 0; i < kFragsM; ++i) {
        if (i >= live_frags) break;
        uint32_t a[4];
        load_a(a, a_lane, i, k);
        multiply_row(i, a, b);
      }
    }
  }

  const int lane_;
  const int warp_m_;
  const int warp_n_;
  const uint32_t a_offset_;
  const uint32_t b_offset_;
  float acc_[kFragsM][kFragsN][4];
};

}  // namespace graphsafe_gg
