// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What the persistent kernels on wgmma have in common: one warpgroup finds tiles and copies their
// operands, the others multiply; they meet at barriers in shared memory.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/group_scan.cuh"
#include "kernels/kernel_args.h"
#include "kernels/kernel_list.h"
#include "kernels/kernel_start.cuh"
#include "kernels/matrix_descriptor.h"
#include "kernels/ptx_sm90.cuh"
#include "kernels/ptx_wgmma.cuh"
#include "kernels/tensor_maps.h"
#include "kernels/tile_scheduler.cuh"
#include "kernels/wgmma_shape.cuh"

namespace graphsafe_gg {

// `Kernel` says which tiles there are and what they take:
//   TilesOf tiles_of() const;                from the rows of a group to its tiles
//   WgmmaTile tile_of(const GroupTile&) const;
//   void copy_boxes(const WgmmaTile&, uint32_t stage, int k) const;
//   void compute(const WgmmaTile&, int consumer, Position& at) const;  multiplies and stores
template <class Kernel, class Shape>
class WgmmaPipeline : protected Shape {
  static constexpr int kStages = Shape::kStages;
  static constexpr int kCluster = Shape::kCluster;
  static constexpr int kConsumers = Shape::kConsumers;
  static constexpr int kConsumerThreads = kConsumers * kWarpgroupThreads;
  static constexpr int kConsumerWarps = kConsumers * 4;
  static constexpr int kFallbackBarrier = 1;
  // Registers of a thread: the compiler gives all warpgroups the same, their roles need other ones.
  static constexpr int kMaxRegisters = 65536 / Shape::kBlocksPerSm / kWarpgroupThreads;
  static constexpr int kProducerRegisters = 88;
  static constexpr int kConsumerRegisters =
      (kMaxRegisters - kProducerRegisters) / kConsumers / 8 * 8 > 240
          ? 240
          : (kMaxRegisters - kProducerRegisters) / kConsumers / 8 * 8;

 public:
  __device__ WgmmaPipeline(const KernelArgs& args, const TensorMaps& maps, unsigned char* smem)
      : args_(args),
        maps_(maps),
        queue_(*reinterpret_cast<WgmmaQueue*>(smem + kStages * Shape::kStageBytes)),
        stages_(ptx::smem_address(smem)),
        rank_(kCluster == 1 ? 0 : static_cast<int>(ptx::cluster_rank())) {}

  __device__ void run() {
    using Weights = FirstWeights<typename Shape::T, Shape::kTransposeRhs, Shape::kBlockN,
                                 Shape::kBlockK * Shape::kStages, Kernel::kTileBlocks>;
    if (!start_kernel<Weights>(args_)) return;
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        ptx::barrier_init(full(i), maps_.is_valid ? 1 : kWarpgroupThreads);
        ptx::barrier_init(empty(i), kConsumerWarps * kCluster);
      }
      ptx::fence_barrier_init();
    }
    sync_all();
    if (threadIdx.x < kWarpgroupThreads) {
      ptx::release_registers<kProducerRegisters>();
      if (threadIdx.x < kWarpSize || !maps_.is_valid) produce();
    } else {
      ptx::claim_registers<kConsumerRegisters>();
      consume();
    }
    // A block's shared memory stays until its neighbours have written to it for the last time.
    if constexpr (kCluster > 1) {
      __syncwarp();
      ptx::cluster_sync();
    }
  }

 protected:
  using Position = StagePosition<kStages>;

  __device__ uint32_t full(uint32_t stage) const { return ptx::smem_address(&queue_.full[stage]); }
  __device__ uint32_t stage_address(uint32_t stage) const {
    return stages_ + stage * Shape::kStageBytes;
  }

  __device__ __forceinline__ void release(uint32_t stage) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    if constexpr (kCluster == 1) {
      if (lane == 0) ptx::barrier_arrive(empty(stage));
    } else {
      if (lane < kCluster) ptx::barrier_arrive_at(empty(stage), static_cast<uint32_t>(lane));
    }
  }

  __device__ void skip(int num_steps, Position& at) const {
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      ptx::barrier_wait(full(at.stage), at.parity);
      release(at.stage);
      at.advance();
    }
  }

  const KernelArgs& args_;
  const TensorMaps& maps_;
  WgmmaQueue& queue_;
  const uint32_t stages_;
  const int rank_;

 private:
  __device__ uint32_t empty(uint32_t stage) const {
    return ptx::smem_address(&queue_.empty[stage]);
  }
  __device__ const Kernel& kernel() const { return static_cast<const Kernel&>(*this); }

  // Of the producers. A thread that copies nothing must not wait for a stage: it could miss its
  // turn.
  __device__ bool is_copier() const { return threadIdx.x == 0 || !maps_.is_valid; }

  __device__ static void sync_all() {
    if constexpr (kCluster > 1) {
      ptx::cluster_sync();
    } else {
      __syncthreads();
    }
  }

  __device__ void produce() {
    const bool is_finder = threadIdx.x < kWarpSize;
    GroupScan scan(queue_.scan, args_, kernel().tiles_of());
    if (is_finder) scan.start(/*records_errors=*/blockIdx.x == 0);
    int64_t next_tile = blockIdx.x / kCluster;
    int slot = 0;
    Position at;
    while (true) {
      if (is_finder) {
        GroupTile found;
        const bool has_tile = scan.find(next_tile, found);
        next_tile += gridDim.x / kCluster;
        if (threadIdx.x == 0) {
          queue_.ring[slot] = has_tile ? kernel().tile_of(found) : WgmmaTile{};
          if (!has_tile) {
            queue_.written = {scan.state().local_start * args_.n, scan.state().local_end * args_.n};
          }
        }
        __syncwarp();
      }
      if (!maps_.is_valid) ptx::named_barrier_sync<kWarpgroupThreads>(kFallbackBarrier);
      const WgmmaTile tile = queue_.ring[slot];
      slot = (slot + 1) % kWgmmaRingTiles;
      if (tile.num_steps == 0) {
        if (!is_copier()) return;
        ptx::barrier_wait(empty(at.stage), at.parity ^ 1);
        ptx::barrier_arrive(full(at.stage));
        return;
      }
      copy(tile, at);
    }
  }

  __device__ __forceinline__ void copy(const WgmmaTile& tile, Position& at) const {
    for (int step = 0; step < tile.num_steps; ++step) {
      if (is_copier()) {
        ptx::barrier_wait(empty(at.stage), at.parity ^ 1);
        if (maps_.is_valid) {
          kernel().copy_boxes(tile, at.stage, step * Shape::kBlockK);
        } else {
          copy_elements(tile, at.stage, step * Shape::kBlockK);
        }
      }
      __syncwarp();
      at.advance();
    }
  }

  // What copy_boxes does, for addresses that only elements are aligned to, and without sharing.
  __device__ void copy_elements(const WgmmaTile& tile, uint32_t stage, int k) const {
    const uint32_t lhs = stage_address(stage);
    const uint32_t rhs = lhs + Shape::kLhsBytes;
    const auto* a = static_cast<const uint16_t*>(args_.lhs) + tile.row * args_.k + k;
    const auto* b = static_cast<const uint16_t*>(args_.rhs) +
                    static_cast<int64_t>(tile.matrix) * args_.k * args_.n;
    const int k_live = live(args_.k, k, Shape::kBlockK);
    copy_box_elements(lhs, Shape::kBlockM, a, args_.k, tile.m_live, k_live);
    if constexpr (Shape::kTransposeRhs) {
      copy_box_elements(rhs, Shape::kBlockN, b + tile.col * args_.k + k, args_.k, tile.n_live,
                        k_live);
    } else {
#pragma unroll 1
      for (uint32_t i = 0; i < Shape::kBlockN / Shape::kRhsBoxCols; ++i) {
        const int first = static_cast<int>(i * Shape::kRhsBoxCols);
        copy_box_elements(rhs + i * Shape::kRhsBoxBytes, Shape::kBlockK,
                          b + k * args_.n + tile.col + first, args_.n, k_live, tile.n_live - first);
      }
    }
    ptx::fence_proxy_async();
    ptx::barrier_arrive(full(stage));
  }

  // `rows` x `cols` elements exist; zeros elsewhere.
  __device__ static void copy_box_elements(uint32_t smem, int num_rows, const uint16_t* src,
                                           int64_t stride, int rows, int cols) {
    const int chunk = static_cast<int>(threadIdx.x) % 8;
    const int cols_here = cols - chunk * 8;
#pragma unroll 1
    for (int row = static_cast<int>(threadIdx.x) / 8; row < num_rows;
         row += kWarpgroupThreads / 8) {
      uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const bool exists = row < rows && i < cols_here;
        const uint32_t bits = exists ? src[row * stride + chunk * 8 + i] : 0u;
        words[i / 2] |= bits << (i % 2 * 16);
      }
      ptx::store_shared_16(
          smem + static_cast<uint32_t>(row * kBoxRowBytes + ((chunk ^ (row & 7)) * 16)), words);
    }
  }

  __device__ void consume() {
    const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads;
    const int consumer = thread / kWarpgroupThreads;
    int slot = 0;
    Position at;
    while (true) {
      ptx::barrier_wait(full(at.stage), at.parity);
      const WgmmaTile tile = queue_.ring[slot];
      slot = (slot + 1) % kWgmmaRingTiles;
      if (tile.num_steps == 0) {
        store_zeros_around(queue_.written, args_.m * args_.n, args_,
                           GridThreads::of(thread, kConsumerThreads));
        return;
      }
      kernel().compute(tile, consumer, at);
    }
  }
};

}  // namespace graphsafe_gg

#define GG_WGMMA_KERNEL(Kernel, prefix, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm, \
                        cluster)                                                                  \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(threads, per_sm)   \
      GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster)(                                         \
          const __grid_constant__ graphsafe_gg::KernelArgs args,                                  \
          const __grid_constant__ graphsafe_gg::TensorMaps maps) {                                \
    extern __shared__ __align__(1024) unsigned char gg_smem[];                                    \
    using Shape = graphsafe_gg::WgmmaShape<type, transpose_rhs, bm, bn, bk, stages, threads,      \
                                           per_sm, cluster>;                                      \
    graphsafe_gg::Kernel<Shape>(args, maps, gg_smem).run();                                       \
  }
