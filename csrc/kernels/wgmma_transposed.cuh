// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The kernel on wgmma whose products are of 64 columns and up to 256 rows: it computes the tile of
// the result transposed, rhs^T @ lhs^T, so that rows count in steps of 32. The consumers share out
// the columns of a tile; the blocks of a cluster are neighbours in columns and share the copies of
// lhs.
#pragma once

#include <cstdint>

#include "kernels/wgmma_pipeline.cuh"

namespace graphsafe_gg {

template <class Shape>
class WgmmaTransposed : public WgmmaPipeline<WgmmaTransposed<Shape>, Shape> {
  using Pipeline = WgmmaPipeline<WgmmaTransposed<Shape>, Shape>;
  friend Pipeline;
  using T = typename Shape::T;
  using Position = typename Pipeline::Position;
  using Pipeline::args_, Pipeline::maps_, Pipeline::rank_;
  using Pipeline::full, Pipeline::release, Pipeline::skip, Pipeline::stage_address;
  using Shape::kBlockK, Shape::kBlockM, Shape::kBlockN, Shape::kCluster, Shape::kConsumers;
  using Shape::kLhsBytes, Shape::kRhsBoxBytes, Shape::kRhsBytes, Shape::kTransposeRhs;

  static constexpr int kRowStep = transposed_box_rows(kBlockM);
  static constexpr int kMaxSteps = kBlockM / kRowStep;
  static constexpr uint32_t kLhsBoxBytes = kRowStep * kBoxRowBytes;
  static constexpr int kClusterCols = kBlockN * kCluster;
  static constexpr int kConsumerCols = kBlockN / kConsumers;
  // Products of 64 columns that a consumer has. As many columns of (k, n) are a box, and as many of
  // (n, k) as many bytes.
  static constexpr int kFrags = kConsumerCols / kWgmmaM;
  static_assert(kFrags * kWgmmaM * kConsumers == kBlockN && kMaxSteps * kRowStep == kBlockM);

  struct TilesOf {
    int64_t num_n_tiles;
    __device__ int64_t operator()(int64_t rows) const {
      return ceil_div(rows, kBlockM) * num_n_tiles;
    }
  };

 public:
  static constexpr bool kIsTransposed = true;
  static constexpr int kTileBlocks = 1;
  using Pipeline::Pipeline;

 private:
  __device__ TilesOf tiles_of() const { return {ceil_div(args_.n, kClusterCols)}; }

  // The tiles of a group share its rows out evenly, in whole steps.
  __device__ static int32_t rows_of_tile(int64_t rows, int64_t num_m_tiles) {
    const auto even = static_cast<int32_t>(divide(rows + num_m_tiles - 1, num_m_tiles));
    return (even + kRowStep - 1) / kRowStep * kRowStep;
  }

  __device__ WgmmaTile tile_of(const GroupTile& found) const {
    const int64_t num_m_tiles = ceil_div(found.size, kBlockM);
    const TileCoord at = tile_coord(found.tile, num_m_tiles, tiles_of().num_n_tiles);
    const int32_t tile_rows = rows_of_tile(found.size, num_m_tiles);
    const int64_t first = at.m_tile * tile_rows;
    const int64_t col = at.n_tile * kClusterCols + rank_ * kBlockN;
    WgmmaTile tile;
    tile.row = static_cast<int32_t>(found.start + first);
    tile.col = static_cast<int32_t>(col);
    tile.matrix = static_cast<int32_t>(found.matrix);
    tile.num_steps = static_cast<int32_t>(ceil_div(args_.k, kBlockK));
    tile.m_live = live(found.size, first, tile_rows);
    tile.n_live = live(args_.n, col, kBlockN);
    tile.is_streamed = num_m_tiles == 1;
    return tile;
  }

  // Rows of other groups that a box brings along are multiplied and not stored.
  __device__ __forceinline__ void copy_boxes(const WgmmaTile& tile, uint32_t stage, int k) const {
    const uint32_t lhs = stage_address(stage);
    const uint32_t rhs = lhs + kLhsBytes;
    const int num_boxes = (tile.m_live + kRowStep - 1) / kRowStep;
    ptx::barrier_arrive_expect(full(stage),
                               static_cast<uint32_t>(num_boxes) * kLhsBoxBytes + kRhsBytes);
    if constexpr (kTransposeRhs) {
      copy_rhs_box(tile, rhs, stage, k, tile.col);
    } else {
#pragma unroll
      for (int i = 0; i < kBlockN / kWgmmaM; ++i) {
        copy_rhs_box(tile, rhs + static_cast<uint32_t>(i) * kRhsBoxBytes, stage,
                     tile.col + i * kWgmmaM, k);
      }
    }
#pragma unroll 1
    for (int i = rank_; i < num_boxes; i += kCluster) {
      const uint32_t box = lhs + static_cast<uint32_t>(i) * kLhsBoxBytes;
      const int row = tile.row + i * kRowStep;
      if constexpr (kCluster > 1) {
        ptx::copy_box_to_blocks(box, &maps_.lhs, full(stage), k, row, (1 << kCluster) - 1);
      } else {
        ptx::copy_box(box, &maps_.lhs, full(stage), k, row);
      }
    }
  }

  __device__ __forceinline__ void copy_rhs_box(const WgmmaTile& tile, uint32_t smem, uint32_t stage,
                                               int x, int y) const {
    if (tile.is_streamed) {
      ptx::copy_box(smem, &maps_.rhs, full(stage), x, y, tile.matrix, ptx::policy_evict_first());
    } else {
      ptx::copy_box(smem, &maps_.rhs, full(stage), x, y, tile.matrix);
    }
  }

  using Accumulator = float[kFrags][kBlockM / 8][4];

  __device__ __forceinline__ void compute(const WgmmaTile& tile, int consumer, Position& at) const {
    const int cols = tile.n_live - consumer * kConsumerCols;
    if (cols <= 0) return skip(tile.num_steps, at);
    Accumulator acc;
    multiply_rows<1>(acc, tile, consumer, at);
#pragma unroll
    for (int f = 0; f < kFrags; ++f) {
      store(acc[f], tile, consumer * kConsumerCols + f * kWgmmaM);
    }
  }

  // By the smallest product that holds the rows.
  template <int kSteps>
  __device__ __forceinline__ void multiply_rows(Accumulator& acc, const WgmmaTile& tile,
                                                int consumer, Position& at) const {
    if constexpr (kSteps < kMaxSteps) {
      if (tile.m_live > kSteps * kRowStep) {
        return multiply_rows<kSteps + 1>(acc, tile, consumer, at);
      }
    }
    multiply<kSteps * kRowStep / 8>(acc, tile.num_steps, consumer, at);
  }

  // The products of a step run while the next one's stage is waited for.
  template <int kCount>
  __device__ __forceinline__ void multiply(Accumulator& acc, int num_steps, int consumer,
                                           Position& at) const {
    using Used = float[kCount][4];
    uint32_t last = 0;
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      ptx::barrier_wait(full(at.stage), at.parity);
      const uint32_t lhs = stage_address(at.stage);
      const uint64_t a = ptx::matrix_descriptor(
          lhs + kLhsBytes + static_cast<uint32_t>(consumer * kFrags) * kRhsBoxBytes, 0);
      const uint64_t b = ptx::matrix_descriptor(lhs, 0);
#pragma unroll
      for (int f = 0; f < kFrags; ++f) ptx::pin(reinterpret_cast<Used&>(acc[f]));
      ptx::wgmma_fence();
#pragma unroll
      for (uint32_t k = 0; k < kBlockK; k += 16) {
        constexpr uint32_t kDepthBytes = kTransposeRhs ? sizeof(T) : kBoxRowBytes;
#pragma unroll
        for (uint32_t f = 0; f < kFrags; ++f) {
          ptx::Wgmma<T, !kTransposeRhs, false>::multiply(
              reinterpret_cast<Used&>(acc[f]), a + ((f * kRhsBoxBytes + k * kDepthBytes) >> 4),
              b + (k * sizeof(T) >> 4), step != 0 || k != 0);
        }
      }
      ptx::wgmma_commit();
#pragma unroll
      for (int f = 0; f < kFrags; ++f) ptx::pin(reinterpret_cast<Used&>(acc[f]));
      if (step != 0) {
        ptx::wgmma_wait<1>();
        release(last);
      }
      last = at.stage;
      at.advance();
    }
    ptx::wgmma_wait<0>();
#pragma unroll
    for (int f = 0; f < kFrags; ++f) ptx::pin(reinterpret_cast<Used&>(acc[f]));
    release(last);
  }

  // Of a product, a warp has 16 columns. A lane has columns lane / 4 and the one 8 further, of rows
  // 2 * (lane % 4) and the next one of each 8 rows.
  __device__ __forceinline__ void store(const float (&acc)[kBlockM / 8][4], const WgmmaTile& tile,
                                        int first_col) const {
    const int warp_col = first_col + static_cast<int>(threadIdx.x) / kWarpSize % 4 * 16;
    const int cols = tile.n_live - warp_col;
    if (cols <= 0) return;
    const auto dtype = static_cast<DType>(args_.out_dtype);
    const int64_t col = int64_t{tile.col} + warp_col;
    const int64_t first = int64_t{tile.row} * args_.n + col;
    const auto* const bias = static_cast<const T*>(args_.bias);
    const TileOutput out = {static_cast<unsigned char*>(args_.out) + first * element_bytes(dtype),
                            args_.n * element_bytes(dtype),
                            bias == nullptr ? nullptr : bias + tile.matrix * args_.n + col,
                            tile.m_live,
                            cols,
                            dtype,
                            can_store_vectors(args_.out, args_.n, dtype)};
    if (dtype == DType::kF32) {
      store_transposed_f32<T>(acc, out);
    } else {
      store_transposed_16bit<T>(acc, out);
    }
  }
};

}  // namespace graphsafe_gg
