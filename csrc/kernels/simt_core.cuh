// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Tile arithmetic for float32 operands in full float32: each element of c is one chain of fused
// multiply-adds in ascending k.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/ptx.cuh"
#include "kernels/smem_tile.cuh"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

// Template arguments as in MmaCore. A thread owns 8 rows x 4 neighbouring columns of every 64.
template <typename T, bool kAIsKRows, bool kBIsKRows, int kBlockM, int kBlockN, int kBlockK,
          int kThreads>
class SimtCore {
 public:
  using Element = T;
  using TileA = SmemTile<T, kAIsKRows ? kBlockK : kBlockM, kAIsKRows ? kBlockM : kBlockK, 0>;
  // Lanes next to each other read every fourth row of an (n, k) tile.
  using TileB =
      SmemTile<T, kBIsKRows ? kBlockK : kBlockN, kBIsKRows ? kBlockN : kBlockK, kBIsKRows ? 0 : 2>;

  // A warp covers 4 x 8 threads, the block 8 x 16.
  __device__ SimtCore() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    thread_m_ = warp / 2 * 4 + lane / 8;
    thread_n_ = warp % 2 * 8 + lane % 8;
  }

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) acc_[i][j] = 0.0f;
    }
  }

  __device__ void multiply(uint32_t smem_a, uint32_t smem_b, int m_live, int k_live) {
    if (m_live == kBlockM && k_live == kBlockK) {
      multiply<true>(smem_a, smem_b, m_live, k_live);
    } else {
      multiply<false>(smem_a, smem_b, m_live, k_live);
    }
  }

  __device__ void store(const TileOutput& out) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kCols; j += 4) {
        float v[4] = {acc_[i][j], acc_[i][j + 1], acc_[i][j + 2], acc_[i][j + 3]};
        const int col = j * kThreadsN + thread_n_ * 4;
        const int cols_left = row(i) < out.rows ? out.cols - col : 0;
        add_bias<T>(v, col, cols_left, out);
        store_4(out.at(row(i), col), v, cols_left, out);
      }
    }
  }

 private:
  static constexpr int kRows = 8;
  static constexpr int kThreadsM = 8;
  static constexpr int kThreadsN = kThreads / kThreadsM;
  static constexpr int kCols = kBlockN / kThreadsN;
  static_assert(sizeof(T) == 4, "operands are float32");
  static_assert(kBlockM == kThreadsM * kRows, "8 threads of 8 rows");
  static_assert(kCols % 4 == 0, "columns are read 16 bytes at a time");
  static_assert(kThreads == 128, "the thread layout is that of 4 warps");
  static_assert(kBlockK % 16 == 0, "rows of k are copied in steps of 16");

  // Rows of an (m, k) tile are interleaved among threads, so that row i of every thread is dead at
  // once; those of a (k, m) tile come in 16-byte chunks.
  __device__ int row(int i) const {
    return kAIsKRows ? i / 4 * (kBlockM / 2) + thread_m_ * 4 + i % 4 : thread_m_ + i * kThreadsM;
  }

  template <bool kFull>
  __device__ __forceinline__ void multiply(uint32_t smem_a, uint32_t smem_b, int m_live,
                                           int k_live) {
#pragma unroll 2
    for (int k = 0; k < kBlockK; k += 4) {
      if (!kFull && k >= k_live) break;
      float b[4][kCols];
      load_b(b, smem_b, k);
      if constexpr (kAIsKRows) {
        float a[4][kRows];
        load_a_columns(a, smem_a, k);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const float steps[4] = {a[0][i], a[1][i], a[2][i], a[3][i]};
          accumulate(acc_[i], steps, b);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          if (!kFull && i * kThreadsM >= m_live) break;
          const float4 v = ptx::load_shared_16(smem_a + TileA::offset(row(i), k / 4));
          const float steps[4] = {v.x, v.y, v.z, v.w};
          accumulate(acc_[i], steps, b);
        }
      }
    }
  }

  __device__ static void accumulate(float (&acc)[kCols], const float (&a)[4],
                                    const float (&b)[4][kCols]) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) acc[j] = fmaf(a[step], b[step][j], acc[j]);
    }
  }

  __device__ void load_a_columns(float (&a)[4][kRows], uint32_t smem, int k) const {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int chunk = half * (kBlockM / 8) + thread_m_;
        const float4 v = ptx::load_shared_16(smem + TileA::offset(k + step, chunk));
        a[step][half * 4] = v.x;
        a[step][half * 4 + 1] = v.y;
        a[step][half * 4 + 2] = v.z;
        a[step][half * 4 + 3] = v.w;
      }
    }
  }

  __device__ void load_b(float (&b)[4][kCols], uint32_t smem, int k) const {
#pragma unroll
    for (int j = 0; j < kCols; j += 4) {
      const int chunk = j / 4 * kThreadsN + thread_n_;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t from =
            kBIsKRows ? TileB::offset(k + i, chunk) : TileB::offset(chunk * 4 + i, k / 4);
        const float4 v = ptx::load_shared_16(smem + from);
        const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if constexpr (kBIsKRows) {
            b[i][j + e] = values[e];
          } else {
            b[e][j + i] = values[e];
          }
        }
      }
    }
  }

  int thread_m_;
  int thread_n_;
  float acc_[kRows][kCols];
};

}  // namespace graphsafe_gg
