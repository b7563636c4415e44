// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Which group owns a tile: a warp reads group_sizes 32 groups at a time and keeps their row and
// tile prefix sums in registers, one group per lane. Any bits in group_sizes give groups inside [0,
// m).
#pragma once

#include <cstdint>

#include "kernels/kernel_args.h"
#include "kernels/problem.h"

namespace graphsafe_gg {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int64_t read_group_size(const KernelArgs& args, int64_t group) {
  switch (static_cast<IndexType>(args.size_type)) {
    case IndexType::kS8:
      return static_cast<const int8_t*>(args.group_sizes)[group];
    case IndexType::kU8:
      return static_cast<const uint8_t*>(args.group_sizes)[group];
    case IndexType::kS16:
      return static_cast<const int16_t*>(args.group_sizes)[group];
    case IndexType::kU16:
      return static_cast<const uint16_t*>(args.group_sizes)[group];
    case IndexType::kS32:
      return static_cast<const int32_t*>(args.group_sizes)[group];
    case IndexType::kU32:
      return static_cast<const uint32_t*>(args.group_sizes)[group];
    case IndexType::kS64:
      return static_cast<const int64_t*>(args.group_sizes)[group];
    case IndexType::kU64: {
      const uint64_t size = static_cast<const uint64_t*>(args.group_sizes)[group];
      return static_cast<int64_t>(size > INT64_MAX ? INT64_MAX : size);
    }
  }
  return 0;
}

// Fields first, kind last: the host reads the fields only once it sees a kind.
__device__ __forceinline__ void record_size_error(SizeErrorRecord* error, SizeErrorKind kind,
                                                  int64_t index, int64_t value, int64_t limit) {
  volatile SizeErrorRecord* record = error;
  if (record->kind != kNoSizeError) return;
  record->index = index;
  record->value = value;
  record->limit = limit;
  __threadfence_system();
  record->kind = kind;
}

struct GroupTile {
  int64_t group;
  int64_t start;  // first row of the group
  int64_t size;   // its rows, cut to those that are left below m
  int64_t tile;   // index among the tiles of the group
};

// All lanes of a warp call every method together and with the same arguments. TilesOf maps the rows
// of a group to its number of tiles.
template <typename TilesOf>
class GroupScan {
 public:
  __device__ GroupScan(const KernelArgs& args, const TilesOf& tiles_of, bool records_errors)
      : args_(args),
        tiles_of_(tiles_of),
        lane_(static_cast<int>(threadIdx.x) % kWarpSize),
        records_errors_(records_errors && args.error != nullptr) {
    next_raw_ = read(lane_);
    load_window();
  }

  // False past the last tile. `tile` must not be smaller than in the call before.
  __device__ bool find(int64_t tile, GroupTile& found) {
    while (first_group_ < args_.num_groups) {
      const int64_t local = tile - tile_base_;
      if (local < window_tiles_) {
        const int owner = __ffs(static_cast<int>(__ballot_sync(kAllLanes, local < tiles_end_))) - 1;
        found.group = first_group_ + owner;
        found.start = __shfl_sync(kAllLanes, start_, owner);
        found.size = __shfl_sync(kAllLanes, size_, owner);
        found.tile = local - (__shfl_sync(kAllLanes, tiles_end_, owner) - tiles_of_(found.size));
        return true;
      }
      first_group_ += kWarpSize;
      tile_base_ += window_tiles_;
      row_base_ += window_rows_;
      load_window();
    }
    return false;
  }

  // Rows of all groups together; valid once find has returned false.
  __device__ int64_t num_rows() const { return row_base_; }

 private:
  __device__ int64_t read(int64_t group) const {
    return group < args_.num_groups ? read_group_size(args_, group) : 0;
  }

  __device__ static int64_t inclusive_sum(int64_t value, int lane) {
#pragma unroll
    for (int step = 1; step < kWarpSize; step *= 2) {
      const int64_t below = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(step));
      if (lane >= step) value += below;
    }
    return value;
  }

  // The sizes of the window were requested one window earlier, so that their latency is hidden.
  __device__ void load_window() {
    const int64_t raw = next_raw_;
    next_raw_ = read(first_group_ + kWarpSize + lane_);
    // Each term is at most m, so that 32 of them cannot overflow.
    const int64_t left = args_.m - row_base_;
    const int64_t wanted = raw < 0 ? 0 : raw;
    const int64_t clipped = wanted < left ? wanted : left;
    const int64_t rows_end = inclusive_sum(clipped, lane_);
    const int64_t before = rows_end - clipped;
    if (records_errors_) record_first_error(raw, before, left);
    start_ = row_base_ + (before < left ? before : left);
    const int64_t room = args_.m - start_;
    size_ = clipped < room ? clipped : room;
    const bool is_group = first_group_ + lane_ < args_.num_groups;
    tiles_end_ = inclusive_sum(is_group ? tiles_of_(size_) : 0, lane_);
    window_tiles_ = __shfl_sync(kAllLanes, tiles_end_, kWarpSize - 1);
    const int64_t rows = __shfl_sync(kAllLanes, rows_end, kWarpSize - 1);
    window_rows_ = rows < left ? rows : left;
  }

  __device__ void record_first_error(int64_t raw, int64_t before, int64_t left) {
    // True also for groups behind the first bad one, whose sum is cut: only the first is used.
    const bool is_bad = raw < 0 || raw > left - before;
    const unsigned bad_lanes = __ballot_sync(kAllLanes, is_bad);
    if (bad_lanes == 0) return;
    records_errors_ = false;
    if (lane_ != __ffs(static_cast<int>(bad_lanes)) - 1) return;
    const int64_t index = first_group_ + lane_;
    if (raw < 0) {
      record_size_error(args_.error, kNegativeSize, index, raw, args_.m);
    } else {
      const int64_t sum_before = row_base_ + before;
      const int64_t sum = raw > INT64_MAX - sum_before ? INT64_MAX : sum_before + raw;
      record_size_error(args_.error, kSumAboveM, index, sum, args_.m);
    }
  }

  const KernelArgs& args_;
  const TilesOf tiles_of_;
  const int lane_;
  bool records_errors_;
  int64_t first_group_ = 0;  // of the window
  int64_t tile_base_ = 0;    // tiles before the window
  int64_t row_base_ = 0;     // rows before the window
  int64_t window_tiles_ = 0;
  int64_t window_rows_ = 0;
  int64_t next_raw_ = 0;  // this lane's size in the window after
  int64_t start_ = 0;     // of this lane's group
  int64_t size_ = 0;
  int64_t tiles_end_ = 0;  // tiles of the window up to and including this lane's group
};

}  // namespace graphsafe_gg
