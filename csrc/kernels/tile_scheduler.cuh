// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Turns tile indices into plain GEMM tiles, for both products. Tile order is group-major, so that
// empty groups cost nothing and a block meets groups in increasing order.
#pragma once

#include <cstdint>

#include "kernels/group_scan.cuh"
#include "kernels/kernel_args.h"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

// One tile of c = a @ b: offsets in elements to the tile's first element, and how much of it
// exists.
struct GemmTile {
  int64_t a;
  int64_t b;
  int64_t c;
  int64_t depth;   // length of the contraction; 0 gives zeros
  int32_t m_live;  // rows of c in the tile
  int32_t n_live;  // columns of c in the tile
  int32_t b_is_read_once;
  int32_t is_end;  // no tile: the block is done
};
static_assert(sizeof(GemmTile) == kRingTileBytes, "the ring in shared memory holds these");

__host__ __device__ constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tile indices almost always fit 32 bits, where a division is several times cheaper.
__host__ __device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

struct TileCoord {
  int64_t m_tile;
  int64_t n_tile;
};

// Tiles that run at the same time should share rows and columns, so that L2 serves them: m-tiles
// are taken in bands, and inside a band the m-tiles of one column of tiles are neighbours.
__host__ __device__ __forceinline__ TileCoord tile_coord(int64_t tile, int64_t num_m_tiles,
                                                         int64_t num_n_tiles) {
  constexpr int64_t kBandTiles = 16;
  if (num_m_tiles == 1) return {0, tile};
  const int64_t band = divide(tile, kBandTiles * num_n_tiles);
  const int64_t first = band * kBandTiles;
  const int64_t left = num_m_tiles - first;
  const int64_t height = left < kBandTiles ? left : kBandTiles;
  const int64_t in_band = tile - first * num_n_tiles;
  const int64_t column = divide(in_band, height);
  return {first + in_band - column * height, column};
}

__device__ __forceinline__ int32_t live(int64_t total, int64_t first, int block) {
  return static_cast<int32_t>(total - first < block ? total - first : block);
}

// out[r] = lhs[r] @ rhs[group of r]: tiles over the rows of each group.
template <int kBlockM, int kBlockN, bool kTransposeRhs>
class MGroupedTiles {
 public:
  __device__ MGroupedTiles(const KernelArgs& args, bool records_errors)
      : args_(args),
        num_n_tiles_(ceil_div(args.n, kBlockN)),
        scan_(args, TilesOf{num_n_tiles_}, records_errors),
        next_(blockIdx.x) {}

  __device__ bool next(GemmTile& tile) {
    GroupTile found;
    if (!scan_.find(next_, found)) return false;
    next_ += gridDim.x;
    const int64_t num_m_tiles = ceil_div(found.size, kBlockM);
    const TileCoord at = tile_coord(found.tile, num_m_tiles, num_n_tiles_);
    const int64_t m_first = at.m_tile * kBlockM;
    const int64_t n_first = at.n_tile * kBlockN;
    const int64_t row = found.start + m_first;
    tile.a = row * args_.k;
    tile.b = found.group * args_.k * args_.n + (kTransposeRhs ? n_first * args_.k : n_first);
    tile.c = row * args_.n + n_first;
    tile.depth = args_.k;
    tile.m_live = live(found.size, m_first, kBlockM);
    tile.n_live = live(args_.n, n_first, kBlockN);
    tile.b_is_read_once = num_m_tiles == 1;
    tile.is_end = 0;
    return true;
  }

  __device__ int64_t num_rows() const { return scan_.num_rows(); }

 private:
  struct TilesOf {
    int64_t num_n_tiles;
    __device__ int64_t operator()(int64_t rows) const {
      return ceil_div(rows, kBlockM) * num_n_tiles;
    }
  };

  const KernelArgs& args_;
  const int64_t num_n_tiles_;
  GroupScan<TilesOf> scan_;
  int64_t next_;
};

// out[i] = lhs[rows of i]^T @ dout[rows of i]: each group has ceil(k / block_m) x ceil(n / block_n)
// tiles, and its rows are the contraction.
template <int kBlockM, int kBlockN>
class KGroupedTiles {
 public:
  __device__ KGroupedTiles(const KernelArgs& args, bool records_errors)
      : args_(args),
        num_m_tiles_(ceil_div(args.k, kBlockM)),
        num_n_tiles_(ceil_div(args.n, kBlockN)),
        scan_(args, TilesOf{num_m_tiles_ * num_n_tiles_}, records_errors),
        next_(blockIdx.x) {}

  __device__ bool next(GemmTile& tile) {
    GroupTile found;
    if (!scan_.find(next_, found)) return false;
    next_ += gridDim.x;
    const TileCoord at = tile_coord(found.tile, num_m_tiles_, num_n_tiles_);
    const int64_t m_first = at.m_tile * kBlockM;
    const int64_t n_first = at.n_tile * kBlockN;
    tile.a = found.start * args_.k + m_first;
    tile.b = found.start * args_.n + n_first;
    tile.c = (found.group * args_.k + m_first) * args_.n + n_first;
    tile.depth = found.size;
    tile.m_live = live(args_.k, m_first, kBlockM);
    tile.n_live = live(args_.n, n_first, kBlockN);
    tile.b_is_read_once = 0;
    tile.is_end = 0;
    return true;
  }

 private:
  struct TilesOf {
    int64_t num_tiles;
    __device__ int64_t operator()(int64_t) const { return num_tiles; }
  };

  const KernelArgs& args_;
  const int64_t num_m_tiles_;
  const int64_t num_n_tiles_;
  GroupScan<TilesOf> scan_;
  int64_t next_;
};

}  // namespace graphsafe_gg
