// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The persistent kernel for many rows a group on sm_90a. One warpgroup finds tiles and copies their
// operands, the others multiply 64 rows each; they meet at barriers in shared memory. The blocks of
// a cluster share out the rows of a tile evenly, and the copies of its weights.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/group_scan.cuh"
#include "kernels/guard.cuh"
#include "kernels/kernel_args.h"
#include "kernels/kernel_list.h"
#include "kernels/ptx_sm90.cuh"
#include "kernels/tensor_maps.h"
#include "kernels/tile_scheduler.cuh"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

constexpr int kWarpgroupThreads = 128;
constexpr int kWarpgroupRows = 64;

// A tile of the cluster as one of its blocks sees it.
struct WgmmaTile {
  int32_t row;        // of lhs and of the result
  int32_t col;        // of the result
  int32_t matrix;     // of rhs and bias
  int32_t num_steps;  // k-steps, at least 1; 0 marks the end
  int32_t m_live;     // rows that exist; none or less in a block past the last row
  int32_t n_live;     // columns that exist
};

struct WgmmaQueue {
  uint64_t full[kWgmmaRingTiles];   // a stage has landed
  uint64_t empty[kWgmmaRingTiles];  // nobody in the cluster reads the stage any more
  WgmmaTile ring[kWgmmaRingTiles];
  Written written;  // valid with the end marker
  ScanState scan;
};
static_assert(sizeof(WgmmaQueue) <= kWgmmaQueueBytes, "the host sizes shared memory by this");

// Position in the ring of stages, and which of two neighbouring rounds it is.
template <int kStages>
struct StagePosition {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class T, bool kTransposeRhs, int kBlockM, int kBlockN, int kBlockK, int kStages,
          int kCluster, int kBlocksPerSm>
class WgmmaGemm {
  static constexpr int kConsumers = kBlockM / kWarpgroupRows;
  static constexpr int kConsumerWarps = kConsumers * 4;
  static constexpr int kConsumerThreads = kConsumers * kWarpgroupThreads;
  static_assert(kBlockK * sizeof(T) == kBoxRowBytes, "a row of a box is a k-step of lhs");
  static_assert(kStages >= 2 && kStages + 2 <= kWgmmaRingTiles,
                "a slot of the ring is read until its tile is stored");
  static_assert(kCluster == 1 || kCluster == 2, "a block copies its half of rhs");

  static constexpr uint32_t kLhsBoxBytes = kLhsBoxRows * kBoxRowBytes;
  static constexpr uint32_t kLhsBytes = kBlockM * kBoxRowBytes;
  static constexpr uint32_t kRhsBytes = kBlockN * kBlockK * sizeof(T);
  static constexpr uint32_t kStageBytes = kLhsBytes + kRhsBytes;
  // A box of (k, n) is 64 columns wide.
  static constexpr uint32_t kRhsBoxCols = kBoxRowBytes / sizeof(T);
  static constexpr uint32_t kRhsBoxBytes = kBlockK * kBoxRowBytes;
  static constexpr int kClusterRows = kBlockM * kCluster;
  static constexpr int kCopiedCols = kBlockN / kCluster;
  static constexpr int kFallbackBarrier = 1;
  // Registers of a thread: the compiler gives all warpgroups the same, their roles need other ones.
  static constexpr int kMaxRegisters = 65536 / kBlocksPerSm / kWarpgroupThreads;
  static constexpr int kProducerRegisters = 88;
  static constexpr int kConsumerRegisters =
      (kMaxRegisters - kProducerRegisters) / kConsumers / 8 * 8 > 240
          ? 240
          : (kMaxRegisters - kProducerRegisters) / kConsumers / 8 * 8;
  // Tiles of so few rows are for groups whose weights one tile reads.
  static constexpr bool kStreamsRhs = kBlockM == kWarpgroupRows;

  using Position = StagePosition<kStages>;

  struct TilesOf {
    int64_t num_n_tiles;
    __device__ int64_t operator()(int64_t rows) const {
      return ceil_div(rows, kClusterRows) * num_n_tiles;
    }
  };

 public:
  __device__ WgmmaGemm(const KernelArgs& args, const TensorMaps& maps, unsigned char* smem)
      : args_(args),
        maps_(maps),
        queue_(*reinterpret_cast<WgmmaQueue*>(smem + kStages * kStageBytes)),
        stages_(ptx::smem_address(smem)),
        rank_(kCluster == 1 ? 0 : static_cast<int>(ptx::cluster_rank())) {}

  __device__ void run() {
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

 private:
  __device__ uint32_t full(uint32_t stage) const { return ptx::smem_address(&queue_.full[stage]); }
  __device__ uint32_t empty(uint32_t stage) const {
    return ptx::smem_address(&queue_.empty[stage]);
  }

  __device__ static void sync_all() {
    if constexpr (kCluster > 1) {
      ptx::cluster_sync();
    } else {
      __syncthreads();
    }
  }

  __device__ void produce() {
    const bool is_finder = threadIdx.x < kWarpSize;
    const TilesOf tiles_of{ceil_div(args_.n, kBlockN)};
    GroupScan<TilesOf> scan(queue_.scan, args_, tiles_of);
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
          queue_.ring[slot] = has_tile ? tile_of(found, tiles_of.num_n_tiles) : WgmmaTile{};
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
        ptx::barrier_wait(empty(at.stage), at.parity ^ 1);
        if (threadIdx.x == 0 || !maps_.is_valid) ptx::barrier_arrive(full(at.stage));
        return;
      }
      for (int step = 0; step < tile.num_steps; ++step) {
        ptx::barrier_wait(empty(at.stage), at.parity ^ 1);
        if (!maps_.is_valid) {
          copy_elements(tile, at.stage, step * kBlockK);
        } else if (threadIdx.x == 0) {
          copy_boxes(tile, at.stage, step * kBlockK);
        }
        __syncwarp();
        at.advance();
      }
    }
  }

  __device__ WgmmaTile tile_of(const GroupTile& found, int64_t num_n_tiles) const {
    const TileCoord at = tile_coord(found.tile, ceil_div(found.size, kClusterRows), num_n_tiles);
    const int32_t cluster_rows = live(found.size, at.m_tile * kClusterRows, kClusterRows);
    const int32_t block_rows = cluster_rows <= kClusterRows - kCluster * kWarpgroupRows
                                   ? kBlockM - kWarpgroupRows
                                   : kBlockM;
    const int64_t row = found.start + at.m_tile * kClusterRows + rank_ * block_rows;
    const int64_t col = at.n_tile * kBlockN;
    WgmmaTile tile;
    tile.row = static_cast<int32_t>(row);
    tile.col = static_cast<int32_t>(col);
    tile.matrix = static_cast<int32_t>(found.matrix);
    tile.num_steps = static_cast<int32_t>(ceil_div(args_.k, kBlockK));
    tile.m_live = live(cluster_rows, rank_ * block_rows, block_rows);
    tile.n_live = live(args_.n, col, kBlockN);
    return tile;
  }

  // Rows of other groups that a box brings along are multiplied and not stored.
  __device__ __forceinline__ void copy_boxes(const WgmmaTile& tile, uint32_t stage, int k) const {
    const uint32_t lhs = stages_ + stage * kStageBytes;
    const uint32_t rhs = lhs + kLhsBytes;
    const int num_boxes = (tile.m_live + kLhsBoxRows - 1) / kLhsBoxRows;
    ptx::barrier_arrive_expect(full(stage),
                               static_cast<uint32_t>(num_boxes) * kLhsBoxBytes + kRhsBytes);
#pragma unroll
    for (int i = 0; i < kConsumers; ++i) {
      if (i < num_boxes) {
        ptx::copy_box(lhs + static_cast<uint32_t>(i) * kLhsBoxBytes, &maps_.lhs, full(stage), k,
                      tile.row + i * kLhsBoxRows);
      }
    }
    const int col = tile.col + rank_ * kCopiedCols;
    const uint32_t half = rhs + static_cast<uint32_t>(rank_) * (kRhsBytes / kCluster);
    if constexpr (kTransposeRhs) {
      copy_rhs_box(half, stage, k, col, tile.matrix);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kCopiedCols / kRhsBoxCols; ++i) {
        copy_rhs_box(half + i * kRhsBoxBytes, stage, col + static_cast<int>(i * kRhsBoxCols), k,
                     tile.matrix);
      }
    }
  }

  __device__ __forceinline__ void copy_rhs_box(uint32_t smem, uint32_t stage, int x, int y,
                                               int z) const {
    if constexpr (kCluster > 1) {
      ptx::copy_box_to_blocks(smem, &maps_.rhs, full(stage), x, y, z, (1 << kCluster) - 1);
    } else if constexpr (kStreamsRhs) {
      ptx::copy_box(smem, &maps_.rhs, full(stage), x, y, z, ptx::policy_evict_first());
    } else {
      ptx::copy_box(smem, &maps_.rhs, full(stage), x, y, z);
    }
  }

  // What copy_boxes does, for addresses that only elements are aligned to.
  __device__ void copy_elements(const WgmmaTile& tile, uint32_t stage, int k) const {
    const uint32_t lhs = stages_ + stage * kStageBytes;
    const auto* a = static_cast<const uint16_t*>(args_.lhs) + tile.row * args_.k + k;
    const auto* b = static_cast<const uint16_t*>(args_.rhs) +
                    static_cast<int64_t>(tile.matrix) * args_.k * args_.n;
    const int k_live = live(args_.k, k, kBlockK);
    copy_box_elements(lhs, kBlockM, a, args_.k, tile.m_live, k_live);
    if constexpr (kTransposeRhs) {
      copy_box_elements(lhs + kLhsBytes, kBlockN, b + tile.col * args_.k + k, args_.k, tile.n_live,
                        k_live);
    } else {
#pragma unroll 1
      for (uint32_t i = 0; i < kBlockN / kRhsBoxCols; ++i) {
        const int first = static_cast<int>(i * kRhsBoxCols);
        copy_box_elements(lhs + kLhsBytes + i * kRhsBoxBytes, kBlockK,
                          b + k * args_.n + tile.col + first, args_.n, k_live, tile.n_live - first);
      }
    }
    ptx::fence_proxy_async();
    ptx::barrier_arrive(full(stage));
  }

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
    float acc[kBlockN / 8][4];
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
      const int rows = tile.m_live - consumer * kWarpgroupRows;
      if (rows <= 0) {
        skip(tile.num_steps, at);
        continue;
      }
      multiply(acc, tile.num_steps, consumer, at);
      store(acc, tile, consumer, rows);
    }
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

  // The products of a step run while the next one's stage is waited for.
  __device__ __forceinline__ void multiply(float (&acc)[kBlockN / 8][4], int num_steps,
                                           int consumer, Position& at) const {
    uint32_t last = 0;
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      ptx::barrier_wait(full(at.stage), at.parity);
      const uint32_t lhs = stages_ + at.stage * kStageBytes;
      const uint64_t a = ptx::matrix_descriptor(
          lhs + static_cast<uint32_t>(consumer) * kWarpgroupRows * kBoxRowBytes, 0);
      const uint64_t b = ptx::matrix_descriptor(lhs + kLhsBytes, kRhsBoxBytes);
      ptx::pin(acc);
      ptx::wgmma_fence();
#pragma unroll
      for (uint32_t k = 0; k < kBlockK; k += 16) {
        constexpr uint32_t kRowsBytes = kTransposeRhs ? sizeof(T) : kBoxRowBytes;
        ptx::Wgmma<T, !kTransposeRhs>::multiply(acc, a + (k * sizeof(T) >> 4),
                                                b + (k * kRowsBytes >> 4), step != 0 || k != 0);
      }
      ptx::wgmma_commit();
      ptx::pin(acc);
      if (step != 0) {
        ptx::wgmma_wait<1>();
        release(last);
      }
      last = at.stage;
      at.advance();
    }
    ptx::wgmma_wait<0>();
    ptx::pin(acc);
    release(last);
  }

  __device__ __forceinline__ void store(const float (&acc)[kBlockN / 8][4], const WgmmaTile& tile,
                                        int consumer, int rows) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
    if (warp_row >= rows) return;
    const auto dtype = static_cast<DType>(args_.out_dtype);
    const int bytes = element_bytes(dtype);
    const int64_t row = int64_t{tile.row} + consumer * kWarpgroupRows;
    const int64_t first = row * args_.n + tile.col;
    const auto* const bias = static_cast<const T*>(args_.bias);
    const TileOutput out = {static_cast<unsigned char*>(args_.out) + first * bytes,
                            args_.n * bytes,
                            bias == nullptr ? nullptr : bias + tile.matrix * args_.n + tile.col,
                            rows,
                            tile.n_live,
                            dtype,
                            can_store_vectors(args_.out, args_.n, dtype)};
    store_fragments<T>(acc, warp_row + lane / 4, 0, lane % 4, out);
  }

  const KernelArgs& args_;
  const TensorMaps& maps_;
  WgmmaQueue& queue_;
  const uint32_t stages_;
  const int rank_;
};

}  // namespace graphsafe_gg

#define GG_WGMMA_GEMM(prefix, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm, cluster)  \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(threads, per_sm)   \
      GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster)(                                         \
          const __grid_constant__ graphsafe_gg::KernelArgs args,                                  \
          const __grid_constant__ graphsafe_gg::TensorMaps maps) {                                \
    extern __shared__ __align__(1024) unsigned char gg_smem[];                                    \
    if (graphsafe_gg::guard_holds(args)) return;                                                  \
    graphsafe_gg::WgmmaGemm<type, transpose_rhs, bm, bn, bk, stages, cluster, per_sm>(args, maps, \
                                                                                      gg_smem)    \
        .run();                                                                                   \
  }
