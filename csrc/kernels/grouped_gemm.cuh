// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The persistent kernel of both products. Each block treats the k-steps of all its tiles as one
// stream: while it finishes a tile, the stages of the next are already on their way.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/kernel_args.h"
#include "kernels/kernel_list.h"
#include "kernels/kernel_start.cuh"
#include "kernels/mma_core.cuh"
#include "kernels/ptx.cuh"
#include "kernels/simt_core.cuh"
#include "kernels/smem_tile.cuh"
#include "kernels/tile_scheduler.cuh"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

// Elements from row to row of the whole operands.
struct OperandStrides {
  int64_t a;
  int64_t b;
  int64_t c;
};

// Walks the k-steps of a tile and starts their copies. Both operands are zero past the depth: a NaN
// of one would survive a zero of the other.
template <class Core, bool kAIsKRows, bool kBIsKRows, int kBlockK, int kThreads, bool kStreamsB>
class StageLoader {
 public:
  __device__ StageLoader(const KernelArgs& args, const OperandStrides& strides)
      : a_(args.lhs, strides.a), b_(args.rhs, strides.b) {}

  __device__ void start(const GemmTile& tile) {
    a_.move_to(tile.a);
    b_.move_to(tile.b);
    m_live_ = tile.m_live;
    n_live_ = tile.n_live;
    last_k_ = tile.last_k;
    steps_left_ = tile.num_steps;
  }

  __device__ bool is_done() const { return steps_left_ == 0; }

  __device__ __forceinline__ void load_step(uint32_t smem_a, uint32_t smem_b) {
    const int k_live = steps_left_ == 1 ? last_k_ : kBlockK;
    const int k_used = (k_live + 15) / 16 * 16;
    if constexpr (kAIsKRows) {
      a_.copy(smem_a, k_live, k_used, m_live_);
      a_.advance_rows(kBlockK);
    } else {
      a_.copy(smem_a, m_live_, (m_live_ + 15) / 16 * 16, k_live);
      a_.advance_cols(kBlockK);
    }
    if constexpr (kBIsKRows) {
      b_.copy(smem_b, k_live, k_used, n_live_);
      b_.advance_rows(kBlockK);
    } else {
      b_.copy(smem_b, n_live_, Core::TileB::kNumRows, k_live);
      b_.advance_cols(kBlockK);
    }
    --steps_left_;
  }

 private:
  TileCopier<typename Core::TileA, kThreads, /*kIsStreamed=*/false> a_;
  TileCopier<typename Core::TileB, kThreads, kStreamsB> b_;
  int m_live_ = 0;
  int n_live_ = 0;
  int last_k_ = 0;
  int steps_left_ = 0;
};

// Three positions move along the block's tiles: warp 0 finds a tile when the one before it starts
// to load, all warps load it, and compute it kStages - 1 steps later. Every step has one barrier,
// which orders all three: a tile is found, loaded and computed in steps that are at least one
// apart. Returns the elements of the result that tiles wrote.
template <class Core, class Tiles, bool kAIsKRows, bool kBIsKRows, int kBlockK, int kStages,
          int kThreads, bool kStreamsB>
__device__ __forceinline__ Written run_tiles(const KernelArgs& args,
                                             const OperandStrides& strides) {
  static_assert(kStages >= 2, "computing lags loading by at least one step");
  static_assert(kStages + 1 <= kRingTiles, "from the tile found to the tile computed");
  constexpr uint32_t kStageBytes = Core::TileA::kBytes + Core::TileB::kBytes;
  extern __shared__ __align__(1024) unsigned char gg_smem[];
  auto& queue = *reinterpret_cast<TileQueue*>(gg_smem + kStages * kStageBytes);
  const uint32_t stages = ptx::smem_address(gg_smem);
  const bool is_finder = threadIdx.x < kWarpSize;

  TileFinder<Tiles> finder(queue, args);
  if (is_finder) {
    finder.start();
    finder.find_next(0);
  }
  StageLoader<Core, kAIsKRows, kBIsKRows, kBlockK, kThreads, kStreamsB> loader(args, strides);
  int load_slot = 0;
  uint32_t load_stage = 0;
  bool is_drained = false;

  Core core;
  int slot = 0;
  uint32_t stage = 0;
  int steps_left = 0;
  int lag = 0;
  while (true) {
    // The stage to compute has landed for this thread; the barrier makes it so for all, and says
    // that nobody still reads the stage that is loaded next.
    ptx::cp_async_wait<kStages - 2>();
    __syncthreads();
    if (loader.is_done() && !is_drained) {
      const GemmTile& next = queue.ring[load_slot];
      is_drained = next.num_steps == 0;
      loader.start(next);
      load_slot = (load_slot + 1) % kRingTiles;
      if (is_finder && !is_drained) finder.find_next(load_slot);
    }
    if (!is_drained) {
      const uint32_t smem = stages + load_stage * kStageBytes;
      loader.load_step(smem, smem + Core::TileA::kBytes);
    }
    ptx::cp_async_commit();
    load_stage = load_stage + 1 == kStages ? 0 : load_stage + 1;
    if (lag < kStages - 1) {
      ++lag;
      continue;
    }

    const GemmTile& tile = queue.ring[slot];
    if (steps_left == 0) {
      steps_left = tile.num_steps;
      if (steps_left == 0) return {tile.a, tile.c};
      core.clear();
    }
    const uint32_t smem = stages + stage * kStageBytes;
    core.multiply(smem, smem + Core::TileA::kBytes, tile.m_live,
                  steps_left == 1 ? tile.last_k : kBlockK);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    if (--steps_left == 0) {
      const auto dtype = static_cast<DType>(args.out_dtype);
      const int bytes = element_bytes(dtype);
      const auto* const bias = static_cast<const typename Core::Element*>(args.bias);
      core.store({static_cast<unsigned char*>(args.out) + tile.c * bytes, strides.c * bytes,
                  bias == nullptr ? nullptr : bias + tile.bias, tile.m_live, tile.n_live, dtype,
                  can_store_vectors(args.out, strides.c, dtype)});
      slot = (slot + 1) % kRingTiles;
    }
  }
}

// Tiles of so few rows are for groups whose weights one tile reads. Larger groups' weights are read
// again, and giving them up early costs them (measured: 4 % at 64 rows a group).
constexpr int kMaxStreamedBlockM = 16;

// out[r] = lhs[r] @ rhs[group of r] + bias[group of r], and zeros in rows without a local group.
template <template <typename, bool, bool, int, int, int, int> class Core, typename T,
          bool kTransposeRhs, int kBlockM, int kBlockN, int kBlockK, int kStages, int kThreads>
__device__ __forceinline__ void m_grouped_gemm(const KernelArgs& args) {
  if (!start_kernel<FirstWeights<T, kTransposeRhs, kBlockN, kBlockK * kStages>>(args)) return;
  constexpr bool kBIsKRows = !kTransposeRhs;
  using TileCore = Core<T, false, kBIsKRows, kBlockM, kBlockN, kBlockK, kThreads>;
  using Tiles = MGroupedTiles<kBlockM, kBlockN, kBlockK, kTransposeRhs>;
  const Written written = run_tiles<TileCore, Tiles, false, kBIsKRows, kBlockK, kStages, kThreads,
                                    (kBlockM <= kMaxStreamedBlockM)>(
      args, {args.k, kTransposeRhs ? args.k : args.n, args.n});
  store_zeros_around(written, args.m * args.n, args, GridThreads::of(threadIdx.x, kThreads));
}

// out[i] = lhs[rows of i]^T @ dout[rows of i]; a group without rows, or that is none, gets zeros.
template <template <typename, bool, bool, int, int, int, int> class Core, typename T, int kBlockM,
          int kBlockN, int kBlockK, int kStages, int kThreads>
__device__ __forceinline__ void k_grouped_gemm(const KernelArgs& args) {
  if (!start_kernel<NoWeights>(args)) return;
  const Written written =
      run_tiles<Core<T, true, true, kBlockM, kBlockN, kBlockK, kThreads>,
                KGroupedTiles<kBlockM, kBlockN, kBlockK>, true, true, kBlockK, kStages, kThreads,
                /*kStreamsB=*/false>(args, {args.k, args.n, args.n});
  store_zeros_around(written, args.num_groups * args.k * args.n, args,
                     GridThreads::of(threadIdx.x, kThreads));
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
