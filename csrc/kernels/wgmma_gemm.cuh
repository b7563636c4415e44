// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The kernel on wgmma whose products are of 64 rows and many columns. Each consumer has 64 rows;
// the blocks of a cluster share out the rows of a tile evenly, and the copies of its weights.
#pragma once

#include <cstdint>

#include "kernels/wgmma_pipeline.cuh"

namespace graphsafe_gg {

template <class Shape>
class WgmmaGemm : public WgmmaPipeline<WgmmaGemm<Shape>, Shape> {
  using Pipeline = WgmmaPipeline<WgmmaGemm<Shape>, Shape>;
  friend Pipeline;
  using T = typename Shape::T;
  using Position = typename Pipeline::Position;
  using Pipeline::args_, Pipeline::maps_, Pipeline::rank_;
  using Pipeline::full, Pipeline::release, Pipeline::skip, Pipeline::stage_address;
  using Shape::kBlockK, Shape::kBlockM, Shape::kBlockN, Shape::kCluster, Shape::kConsumers;
  using Shape::kLhsBytes, Shape::kRhsBoxBytes, Shape::kRhsBoxCols, Shape::kRhsBytes;
  using Shape::kTransposeRhs;
  static_assert(kConsumers == kBlockM / kWgmmaM, "a consumer has the rows of one product");

  static constexpr uint32_t kLhsBoxBytes = kLhsBoxRows * kBoxRowBytes;
  static constexpr int kClusterRows = kBlockM * kCluster;
  static constexpr int kCopiedCols = kBlockN / kCluster;
  // Tiles of so few rows are for groups whose weights one tile reads.
  static constexpr bool kStreamsRhs = kBlockM == kWgmmaM;

  struct TilesOf {
    int64_t num_n_tiles;
    __device__ int64_t operator()(int64_t rows) const {
      return ceil_div(rows, kClusterRows) * num_n_tiles;
    }
  };

 public:
  static constexpr bool kIsTransposed = false;
  static constexpr int kTileBlocks = kCluster;
  using Pipeline::Pipeline;

 private:
  __device__ TilesOf tiles_of() const { return {ceil_div(args_.n, kBlockN)}; }

  __device__ WgmmaTile tile_of(const GroupTile& found) const {
    const int64_t num_n_tiles = tiles_of().num_n_tiles;
    const TileCoord at = tile_coord(found.tile, ceil_div(found.size, kClusterRows), num_n_tiles);
    const int32_t cluster_rows = live(found.size, at.m_tile * kClusterRows, kClusterRows);
    const int32_t block_rows =
        cluster_rows <= kClusterRows - kCluster * kWgmmaM ? kBlockM - kWgmmaM : kBlockM;
    const int64_t row = found.start + at.m_tile * kClusterRows + rank_ * block_rows;
    const int64_t col = at.n_tile * kBlockN;
    WgmmaTile tile;
    tile.row = static_cast<int32_t>(row);
    tile.col = static_cast<int32_t>(col);
    tile.matrix = static_cast<int32_t>(found.matrix);
    tile.num_steps = static_cast<int32_t>(ceil_div(args_.k, kBlockK));
    tile.m_live = live(cluster_rows, rank_ * block_rows, block_rows);
    tile.n_live = live(args_.n, col, kBlockN);
    tile.is_streamed = kStreamsRhs;
    return tile;
  }

  // Rows of other groups that a box brings along are multiplied and not stored.
  __device__ __forceinline__ void copy_boxes(const WgmmaTile& tile, uint32_t stage, int k) const {
    const uint32_t lhs = stage_address(stage);
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

  __device__ __forceinline__ void compute(const WgmmaTile& tile, int consumer, Position& at) const {
    const int rows = tile.m_live - consumer * kWgmmaM;
    if (rows <= 0) return skip(tile.num_steps, at);
    float acc[kBlockN / 8][4];
    multiply(acc, tile.num_steps, consumer, at);
    store(acc, tile, consumer, rows);
  }

  // The products of a step run while the next one's stage is waited for.
  __device__ __forceinline__ void multiply(float (&acc)[kBlockN / 8][4], int num_steps,
                                           int consumer, Position& at) const {
    uint32_t last = 0;
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      ptx::barrier_wait(full(at.stage), at.parity);
      const uint32_t lhs = stage_address(at.stage);
      const uint64_t a =
          ptx::matrix_descriptor(lhs + static_cast<uint32_t>(consumer) * kWgmmaM * kBoxRowBytes, 0);
      const uint64_t b = ptx::matrix_descriptor(lhs + kLhsBytes, kRhsBoxBytes);
      ptx::pin(acc);
      ptx::wgmma_fence();
#pragma unroll
      for (uint32_t k = 0; k < kBlockK; k += 16) {
        constexpr uint32_t kRowsBytes = kTransposeRhs ? sizeof(T) : kBoxRowBytes;
        ptx::Wgmma<T, false, !kTransposeRhs>::multiply(
            acc, a + (k * sizeof(T) >> 4), b + (k * kRowsBytes >> 4), step != 0 || k != 0);
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
    const int64_t row = int64_t{tile.row} + consumer * kWgmmaM;
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
};

}  // namespace graphsafe_gg
