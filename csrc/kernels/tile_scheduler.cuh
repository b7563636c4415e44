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
// exists. In the end marker, a and c bound the elements of the result that tiles wrote.
struct GemmTile {
  int64_t a;
  int64_t b;
  int64_t c;
  int64_t bias;
  int32_t num_steps;  // k-steps of the tile, at least 1; 0 marks the end
  int32_t last_k;     // k that exist in the last step; 0 (of one step) gives zeros
  int32_t m_live;     // rows of c in the tile
  int32_t n_live;     // columns of c in the tile
};

// What the warps of a block share about their tiles: see run_tiles.
struct TileQueue {
  GemmTile ring[kRingTiles];
  ScanState scan;
  int64_t next_tile;
};
static_assert(sizeof(TileQueue) == kTileQueueBytes, "the host sizes shared memory by this");

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

__device__ __forceinline__ void set_depth(GemmTile& tile, int64_t depth, int block_k) {
  const int64_t steps = depth == 0 ? 1 : ceil_div(depth, block_k);
  tile.num_steps = static_cast<int32_t>(steps);
  tile.last_k = static_cast<int32_t>(depth - (steps - 1) * block_k);
}

// out[r] = lhs[r] @ rhs[group of r]: tiles over the rows of each group.
template <int kBlockM, int kBlockN, int kBlockK, bool kTransposeRhs>
struct MGroupedTiles {
  const KernelArgs& args;
  const int64_t num_n_tiles = ceil_div(args.n, kBlockN);

  __device__ int64_t operator()(int64_t rows) const {
    return ceil_div(rows, kBlockM) * num_n_tiles;
  }

  __device__ GemmTile tile(const GroupTile& found) const {
    const TileCoord at = tile_coord(found.tile, ceil_div(found.size, kBlockM), num_n_tiles);
    const int64_t m_first = at.m_tile * kBlockM;
    const int64_t n_first = at.n_tile * kBlockN;
    const int64_t row = found.start + m_first;
    GemmTile tile;
    tile.a = row * args.k;
    tile.b = found.matrix * args.k * args.n + (kTransposeRhs ? n_first * args.k : n_first);
    tile.c = row * args.n + n_first;
    tile.bias = found.matrix * args.n + n_first;
    tile.m_live = live(found.size, m_first, kBlockM);
    tile.n_live = live(args.n, n_first, kBlockN);
    set_depth(tile, args.k, kBlockK);
    return tile;
  }

  __device__ GemmTile end(const ScanState& scan) const {
    GemmTile tile{};
    tile.a = scan.local_start * args.n;
    tile.c = scan.local_end * args.n;
    return tile;
  }
};

// out[i] = lhs[rows of i]^T @ dout[rows of i]: each group has ceil(k / block_m) x ceil(n / block_n)
// tiles, and its rows are the contraction.
template <int kBlockM, int kBlockN, int kBlockK>
struct KGroupedTiles {
  const KernelArgs& args;
  const int64_t num_m_tiles = ceil_div(args.k, kBlockM);
  const int64_t num_n_tiles = ceil_div(args.n, kBlockN);

  __device__ int64_t operator()(int64_t) const { return num_m_tiles * num_n_tiles; }

  __device__ GemmTile tile(const GroupTile& found) const {
    const TileCoord at = tile_coord(found.tile, num_m_tiles, num_n_tiles);
    const int64_t m_first = at.m_tile * kBlockM;
    const int64_t n_first = at.n_tile * kBlockN;
    GemmTile tile;
    tile.a = found.start * args.k + m_first;
    tile.b = found.start * args.n + n_first;
    tile.c = (found.matrix * args.k + m_first) * args.n + n_first;
    tile.bias = 0;
    tile.m_live = live(args.k, m_first, kBlockM);
    tile.n_live = live(args.n, n_first, kBlockN);
    set_depth(tile, found.size, kBlockK);
    return tile;
  }

  __device__ GemmTile end(const ScanState& scan) const {
    GemmTile tile{};
    tile.a = (scan.local.first + scan.local.matrix_base) * args.k * args.n;
    tile.c = (scan.local.end + scan.local.matrix_base) * args.k * args.n;
    return tile;
  }
};

// Finds the tiles of a block: every gridDim.x-th from blockIdx.x on. One warp calls it.
template <class Tiles>
class TileFinder {
 public:
  __device__ TileFinder(TileQueue& queue, const KernelArgs& args)
      : queue_(queue), tiles_{args}, scan_(queue.scan, args, tiles_) {}

  __device__ void start() {
    if (threadIdx.x == 0) queue_.next_tile = blockIdx.x;
    // One block of the grid reports bad sizes.
    scan_.start(/*records_errors=*/blockIdx.x == 0);
  }

  __device__ void find_next(int slot) {
    GroupTile found;
    const bool has_tile = scan_.find(queue_.next_tile, found);
    const GemmTile tile = has_tile ? tiles_.tile(found) : tiles_.end(scan_.state());
    __syncwarp();
    if (threadIdx.x == 0) {
      queue_.ring[slot] = tile;
      queue_.next_tile += gridDim.x;
    }
    __syncwarp();
  }

 private:
  TileQueue& queue_;
  const Tiles tiles_;
  GroupScan<Tiles> scan_;
};

}  // namespace graphsafe_gg
