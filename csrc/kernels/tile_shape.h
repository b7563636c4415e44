// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Facts of a tile shape that host and device must agree on. Plain C++: no CUDA.
#pragma once

#include <cstdint>

namespace graphsafe_gg {

struct TileShape {
  int block_m;
  int block_n;
  int block_k;
  int num_stages;
  int num_threads;
  int blocks_per_sm;           // wanted; a GPU with less shared memory gets fewer
  int cluster_size;            // blocks that share copies; 0: a kernel without tensor maps
  bool is_transposed = false;  // the kernel computes the transposed tile
};

constexpr bool operator==(const TileShape& a, const TileShape& b) {
  return a.block_m == b.block_m && a.block_n == b.block_n && a.block_k == b.block_k &&
         a.num_stages == b.num_stages && a.num_threads == b.num_threads &&
         a.cluster_size == b.cluster_size && a.is_transposed == b.is_transposed;
}

// Behind the stages, shared memory holds the tiles that are being found, loaded or computed, and
// the state of the scan of group_sizes.
constexpr int kRingTiles = 8;
constexpr int kTileQueueBytes = 48 * kRingTiles + 2 * 8 * 128 + 9 * 8 + 8;
constexpr int kWgmmaRingTiles = 16;
constexpr int kWgmmaQueueBytes = (2 * 8 + 28) * kWgmmaRingTiles + 2 * 8 * 128 + 11 * 8;

constexpr int smem_bytes(const TileShape& shape, int element_bytes) {
  return shape.num_stages * (shape.block_m + shape.block_n) * shape.block_k * element_bytes +
         (shape.cluster_size > 0 ? kWgmmaQueueBytes : kTileQueueBytes);
}

}  // namespace graphsafe_gg
