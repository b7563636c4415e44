// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What a kernel on wgmma is made for, and what its warpgroups share.
#pragma once

#include <cstdint>

#include "kernels/epilogue.cuh"
#include "kernels/group_scan.cuh"
#include "kernels/tensor_maps.h"
#include "kernels/tile_shape.h"

namespace graphsafe_gg {

constexpr int kWarpgroupThreads = 128;
// Extent of a product along the first operand.
constexpr int kWgmmaM = 64;

// A tile of the cluster as one of its blocks sees it.
struct WgmmaTile {
  int32_t row;          // of lhs and of the result
  int32_t col;          // of the result
  int32_t matrix;       // of rhs and bias
  int32_t num_steps;    // k-steps, at least 1; 0 marks the end
  int32_t m_live;       // rows that exist; none or less in a block past the last row
  int32_t n_live;       // columns that exist; none or less in a block past the last column
  int32_t is_streamed;  // no other tile reads these columns of rhs
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

// A line of the kernel list.
template <class Operand, bool kTransposed, int kBm, int kBn, int kBk, int kNumStages, int kThreads,
          int kPerSm, int kClusterSize>
struct WgmmaShape {
  using T = Operand;
  static constexpr bool kTransposeRhs = kTransposed;
  static constexpr int kBlockM = kBm;
  static constexpr int kBlockN = kBn;
  static constexpr int kBlockK = kBk;
  static constexpr int kStages = kNumStages;
  static constexpr int kConsumers = kThreads / kWarpgroupThreads - 1;
  static constexpr int kCluster = kClusterSize;
  static constexpr int kBlocksPerSm = kPerSm;
  static_assert(kBlockK * sizeof(T) == kBoxRowBytes, "a row of a box is a k-step of lhs");
  static_assert(kStages >= 2 && kStages + 2 <= kWgmmaRingTiles,
                "a slot of the ring is read until its tile is stored");
  static_assert(kCluster == 1 || kCluster == 2, "a block copies its half of what is shared");

  static constexpr uint32_t kLhsBytes = kBlockM * kBoxRowBytes;
  static constexpr uint32_t kRhsBytes = kBlockN * kBlockK * sizeof(T);
  static constexpr uint32_t kStageBytes = kLhsBytes + kRhsBytes;
  // A box of (k, n) is 64 columns wide.
  static constexpr uint32_t kRhsBoxCols = kBoxRowBytes / sizeof(T);
  static constexpr uint32_t kRhsBoxBytes = kBlockK * kBoxRowBytes;
};

}  // namespace graphsafe_gg
