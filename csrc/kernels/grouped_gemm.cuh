// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The persistent kernel of both products. Each block treats the k-steps of all its tiles as one
// stream: while it finishes a tile, the stages of the next are already on their way.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/kernel_args.h"
#include "kernels/kernel_list.h"
#include "kernels/mma_core.cuh"
#include "kernels/ptx.cuh"
#include "kernels/simt_core.cuh"
#include "kernels/smem_tile.cuh"
#include "kernels/tile_scheduler.cuh"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

// kAIsKRows, kBIsKRows: see MmaCore. Strides are those of the whole operands.
struct OperandStrides {
  int64_t a;
  int64_t b;
  int64_t c;
};

template <class Core, bool kAIsKRows, bool kBIsKRows, int kBlockK, int kThreads>
class StageLoader {
  using T = typename Core::Element;

 public:
  __device__ StageLoader(const KernelArgs& args, const OperandStrides& strides)
      : a_(static_cast<const T*>(args.lhs)),
        b_(static_cast<const T*>(args.rhs)),
        strides_(strides),
        a_width_(copy_width(args.lhs, strides.a * static_cast<int64_t>(sizeof(T)))),
        b_width_(copy_width(args.rhs, strides.b * static_cast<int64_t>(sizeof(T)))) {}

  // Starts the copy of k-step [k, k + kBlockK) of the tile. Both operands are zero past the depth:
  // a NaN of one would survive a zero of the other.
  __device__ __forceinline__ void load(uint32_t smem_a, uint32_t smem_b, const GemmTile& tile,
                                       int64_t k) const {
    const int k_live = live_k(tile.depth - k);
    const int k_used = (k_live + 15) / 16 * 16;
    const uint64_t keep = ptx::policy_evict_normal();
    TileSource<T> a{a_ + tile.a, strides_.a, 0, 0, 0, a_width_, keep};
    if constexpr (kAIsKRows) {
      a.src += k * strides_.a;
      a.rows = k_live;
      a.rows_used = k_used;
      a.cols = tile.m_live;
    } else {
      a.src += k;
      a.rows = tile.m_live;
      a.rows_used = (tile.m_live + 15) / 16 * 16;
      a.cols = k_live;
    }
    copy_tile<typename Core::TileA, kThreads>(smem_a, a);

    const uint64_t b_policy = tile.b_is_read_once ? ptx::policy_evict_first() : keep;
    TileSource<T> b{b_ + tile.b, strides_.b, 0, 0, 0, b_width_, b_policy};
    if constexpr (kBIsKRows) {
      b.src += k * strides_.b;
      b.rows = k_live;
      b.rows_used = k_used;
      b.cols = tile.n_live;
    } else {
      b.src += k;
      b.rows = tile.n_live;
      b.rows_used = Core::TileB::kNumRows;
      b.cols = k_live;
    }
    copy_tile<typename Core::TileB, kThreads>(smem_b, b);
  }

  __device__ static int live_k(int64_t left) {
    return static_cast<int>(left < kBlockK ? (left < 0 ? 0 : left) : kBlockK);
  }

 private:
  const T* a_;
  const T* b_;
  const OperandStrides strides_;
  const CopyWidth a_width_;
  const CopyWidth b_width_;
};

template <class Core, class Tiles, bool kAIsKRows, bool kBIsKRows, int kBlockK, int kStages,
          int kThreads>
__device__ __forceinline__ void run_tiles(const KernelArgs& args, const OperandStrides& strides,
                                          Tiles& tiles) {
  static_assert(kStages >= 2, "a tile is published at least one barrier before it is computed");
  static_assert(kStages <= kRingTiles, "the ring holds every tile between loader and arithmetic");
  using Loader = StageLoader<Core, kAIsKRows, kBIsKRows, kBlockK, kThreads>;
  constexpr uint32_t kStageBytes = Core::TileA::kBytes + Core::TileB::kBytes;
  extern __shared__ __align__(1024) unsigned char gg_smem[];
  auto* const ring = reinterpret_cast<GemmTile*>(gg_smem + kStages * kStageBytes);
  const uint32_t stages = ptx::smem_address(gg_smem);

  const Loader loader(args, strides);
  GemmTile loading{};
  int64_t load_k = 0;
  bool needs_tile = true;
  int published = 0;

  Core core;
  GemmTile tile{};
  int64_t tile_k = 0;
  bool starts_tile = true;
  int taken = 0;

  const auto dtype = static_cast<DType>(args.out_dtype);
  const bool is_vector = can_store_vectors(args.out, strides.c, dtype);
  int load_stage = 0;
  int stage = 0;
  int steps_ahead = 0;
  while (true) {
    const bool is_full = steps_ahead == kStages - 1;
    if (is_full) {
      // The stage to compute has landed for this thread; the barrier makes it so for all, and says
      // that nobody still reads the stage that is loaded next.
      ptx::cp_async_wait<kStages - 2>();
      __syncthreads();
    }
    if (needs_tile && !loading.is_end) {
      if (!tiles.next(loading)) loading.is_end = 1;
      if (threadIdx.x == 0) ring[published % kRingTiles] = loading;
      ++published;
      load_k = 0;
    }
    if (!loading.is_end) {
      const uint32_t smem = stages + static_cast<uint32_t>(load_stage) * kStageBytes;
      loader.load(smem, smem + Core::TileA::kBytes, loading, load_k);
      load_k += kBlockK;
      needs_tile = load_k >= loading.depth;
    }
    ptx::cp_async_commit();
    load_stage = load_stage + 1 == kStages ? 0 : load_stage + 1;
    if (!is_full) {
      ++steps_ahead;
      continue;
    }

    if (starts_tile) {
      tile = ring[taken % kRingTiles];
      ++taken;
      if (tile.is_end) break;
      tile_k = 0;
      starts_tile = false;
      core.clear();
    }
    const uint32_t smem = stages + static_cast<uint32_t>(stage) * kStageBytes;
    core.multiply(smem, smem + Core::TileA::kBytes, tile.m_live,
                  Loader::live_k(tile.depth - tile_k));
    stage = stage + 1 == kStages ? 0 : stage + 1;
    tile_k += kBlockK;
    if (tile_k >= tile.depth) {
      auto* const base = static_cast<unsigned char*>(args.out) + tile.c * element_bytes(dtype);
      core.store(
          {base, strides.c * element_bytes(dtype), tile.m_live, tile.n_live, dtype, is_vector});
      starts_tile = true;
    }
  }
}

// Only one warp of the grid reports bad sizes.
__device__ __forceinline__ bool is_reporting_warp() { return blockIdx.x == 0 && threadIdx.x < 32; }

// out[r] = lhs[r] @ rhs[group of r], and zeros in the rows past the last group.
template <template <typename, bool, bool, int, int, int, int> class Core, typename T,
          bool kTransposeRhs, int kBlockM, int kBlockN, int kBlockK, int kStages, int kThreads>
__device__ __forceinline__ void m_grouped_gemm(const KernelArgs& args) {
  MGroupedTiles<kBlockM, kBlockN, kTransposeRhs> tiles(args, is_reporting_warp());
  const OperandStrides strides{args.k, kTransposeRhs ? args.k : args.n, args.n};
  run_tiles<Core<T, false, !kTransposeRhs, kBlockM, kBlockN, kBlockK, kThreads>, decltype(tiles),
            false, !kTransposeRhs, kBlockK, kStages, kThreads>(args, strides, tiles);
  const int bytes = element_bytes(static_cast<DType>(args.out_dtype));
  auto* const out = static_cast<unsigned char*>(args.out);
  store_zeros(out + tiles.num_rows() * args.n * bytes, out + args.m * args.n * bytes);
}

// out[i] = lhs[rows of i]^T @ dout[rows of i]; a group without rows gets zeros.
template <template <typename, bool, bool, int, int, int, int> class Core, typename T, int kBlockM,
          int kBlockN, int kBlockK, int kStages, int kThreads>
__device__ __forceinline__ void k_grouped_gemm(const KernelArgs& args) {
  KGroupedTiles<kBlockM, kBlockN> tiles(args, is_reporting_warp());
  const OperandStrides strides{args.k, args.n, args.n};
  run_tiles<Core<T, true, true, kBlockM, kBlockN, kBlockK, kThreads>, decltype(tiles), true, true,
            kBlockK, kStages, kThreads>(args, strides, tiles);
}

}  // namespace graphsafe_gg

#define GG_KERNEL(name, threads, per_sm, body)                      \
  extern "C" __global__ void __launch_bounds__(threads, per_sm)     \
      name(const __grid_constant__ graphsafe_gg::KernelArgs args) { \
    body;                                                           \
  }
#define GG_M_GROUPED(prefix, core, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm)   \
  GG_KERNEL(GG_KERNEL_NAME(prefix, bm, bn, bk, stages), threads, per_sm,                       \
            (graphsafe_gg::m_grouped_gemm<graphsafe_gg::core, type, transpose_rhs, bm, bn, bk, \
                                          stages, threads>(args)))
#define GG_K_GROUPED(prefix, core, type, bm, bn, bk, stages, threads, per_sm) \
  GG_KERNEL(                                                                  \
      GG_KERNEL_NAME(prefix, bm, bn, bk, stages), threads, per_sm,            \
      (graphsafe_gg::k_grouped_gemm<graphsafe_gg::core, type, bm, bn, bk, stages, threads>(args)))
