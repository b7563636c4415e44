// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Which group owns a tile: a warp reads group_sizes 32 groups at a time and keeps their row and
// tile prefix sums in registers, one group per lane. Any bits in group_sizes give groups inside [0,
// m).
#pragma once

#include <cstdint>

#include "kernels/kernel_args.h"
#include "kernels/local_groups.h"
#include "kernels/problem.h"

namespace graphsafe_gg {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int64_t read_index(const void* values, uint8_t type, int64_t i) {
  switch (static_cast<IndexType>(type)) {
    case IndexType::kS8:
      return static_cast<const int8_t*>(values)[i];
    case IndexType::kU8:
      return static_cast<const uint8_t*>(values)[i];
    case IndexType::kS16:
      return static_cast<const int16_t*>(values)[i];
    case IndexType::kU16:
      return static_cast<const uint16_t*>(values)[i];
    case IndexType::kS32:
      return static_cast<const int32_t*>(values)[i];
    case IndexType::kU32:
      return static_cast<const uint32_t*>(values)[i];
    case IndexType::kS64:
      return static_cast<const int64_t*>(values)[i];
    case IndexType::kU64: {
      const uint64_t size = static_cast<const uint64_t*>(values)[i];
      return static_cast<int64_t>(size > INT64_MAX ? INT64_MAX : size);
    }
  }
  return 0;
}

__device__ __forceinline__ int64_t read_group_size(const KernelArgs& args, int64_t group) {
  return group < args.num_sizes ? read_index(args.group_sizes, args.size_type, group) : 0;
}

__device__ __forceinline__ int64_t read_index(const IndexOperand& operand) {
  return operand.address == nullptr ? operand.value : read_index(operand.address, operand.type, 0);
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
  int64_t matrix;  // of the group, in the stack of matrices
  int64_t start;   // first row of the group
  int64_t size;    // its rows, cut to those that are left below m
  int64_t tile;    // index among the tiles of the group
};

constexpr int kLaneGroups = 4;  // neighbouring groups of one lane: their loads overlap
constexpr int kWindowGroups = kWarpSize * kLaneGroups;

// A window of groups. It lives in shared memory: registers belong to the accumulators.
struct ScanState {
  int64_t rows_end[kWindowGroups];   // rows from the window's first up to and including each group
  int64_t tiles_end[kWindowGroups];  // the same for tiles
  int64_t first_group;
  int64_t row_base;   // rows before the window
  int64_t tile_base;  // tiles before the window
  int64_t records_errors;
  LocalGroups local;
  int64_t local_start;  // rows before the local groups, and up to their end: once all are scanned
  int64_t local_end;
};

// One warp owns the state; all its lanes call every method together and with the same arguments.
// TilesOf maps the rows of a group to its number of tiles.
template <typename TilesOf>
class GroupScan {
 public:
  __device__ GroupScan(ScanState& state, const KernelArgs& args, const TilesOf& tiles_of)
      : state_(state), args_(args), tiles_of_(tiles_of), lane_(threadIdx.x % kWarpSize) {}

  __device__ void start(bool records_errors) {
    if (lane_ == 0) {
      state_.first_group = 0;
      state_.row_base = 0;
      state_.tile_base = 0;
      state_.records_errors = records_errors && args_.error != nullptr;
      state_.local_start = 0;
      state_.local_end = 0;
      find_local_groups();
    }
    __syncwarp();
    load_window();
  }

  // False past the last tile. `tile` must not be smaller than in the call before.
  __device__ bool find(int64_t tile, GroupTile& found) {
    while (state_.first_group < args_.num_sizes) {
      const int64_t local = tile - state_.tile_base;
      const int owner = first_group_past(local);
      if (owner < kWindowGroups) {
        const int64_t before = owner == 0 ? 0 : state_.rows_end[owner - 1];
        found.matrix = state_.first_group + owner + state_.local.matrix_base;
        found.start = state_.row_base + before;
        found.size = state_.rows_end[owner] - before;
        found.tile = local - (owner == 0 ? 0 : state_.tiles_end[owner - 1]);
        return true;
      }
      advance();
    }
    return false;
  }

  // Once find has returned false, the rows of the local groups are there too.
  __device__ const ScanState& state() const { return state_; }

 private:
  // The first group of the window whose tiles end past `local`; kWindowGroups if there is none.
  __device__ int first_group_past(int64_t local) const {
    const int64_t lane_end = state_.tiles_end[lane_ * kLaneGroups + kLaneGroups - 1];
    const int lane = __ffs(static_cast<int>(__ballot_sync(kAllLanes, local < lane_end))) - 1;
    if (lane < 0) return kWindowGroups;
    const int first = lane * kLaneGroups;
    const bool is_past =
        lane_ < kLaneGroups && local < state_.tiles_end[first + static_cast<int>(lane_)];
    return first + __ffs(static_cast<int>(__ballot_sync(kAllLanes, is_past))) - 1;
  }

  __device__ void advance() {
    const int64_t rows = state_.rows_end[kWindowGroups - 1];
    const int64_t tiles = state_.tiles_end[kWindowGroups - 1];
    __syncwarp();
    if (lane_ == 0) {
      state_.first_group += kWindowGroups;
      state_.row_base += rows;
      state_.tile_base += tiles;
    }
    __syncwarp();
    load_window();
  }

  __device__ int64_t tiles_of(int64_t group, int64_t rows) const {
    return group >= state_.local.first && group < state_.local.end ? tiles_of_(rows) : 0;
  }

  // One lane: the errors here come before those of sizes.
  __device__ void find_local_groups() {
    const int64_t offset = read_index(args_.group_offset);
    const int64_t layer = read_index(args_.layer);
    state_.local = local_groups(offset, layer, args_.num_sizes, args_.num_groups, args_.num_layers);
    if (!state_.records_errors) return;
    if (!is_legal_offset(offset, args_.num_sizes, args_.num_groups)) {
      record_error(kBadGroupOffset, 0, offset, args_.num_sizes - args_.num_groups);
    } else if (!is_legal_layer(layer, args_.num_layers)) {
      record_error(kBadLayer, 0, layer, args_.num_layers - 1);
    }
  }

  __device__ void record_error(SizeErrorKind kind, int64_t index, int64_t value, int64_t limit) {
    state_.records_errors = 0;
    record_size_error(args_.error, kind, index, value, limit);
  }

  __device__ void load_window() {
    const int64_t first = state_.first_group + lane_ * kLaneGroups;
    const int64_t left = args_.m - state_.row_base;
    int64_t raw[kLaneGroups];
#pragma unroll
    for (int i = 0; i < kLaneGroups; ++i) raw[i] = read_group_size(args_, first + i);
    // Each term is at most m, so that those of a window cannot overflow.
    int64_t ends[kLaneGroups];
    int64_t tiles[kLaneGroups];
    int64_t lane_rows = 0;
    int64_t lane_tiles = 0;
#pragma unroll
    for (int i = 0; i < kLaneGroups; ++i) {
      const int64_t wanted = raw[i] < 0 ? 0 : raw[i];
      const int64_t clipped = wanted < left ? wanted : left;
      ends[i] = lane_rows += clipped;
      tiles[i] = lane_tiles += tiles_of(first + i, clipped);
    }
    const int64_t rows_before = inclusive_sum(lane_rows) - lane_rows;
    int64_t tiles_before = inclusive_sum(lane_tiles) - lane_tiles;
    if (state_.records_errors) record_first_error(raw, first, rows_before, left);
    const bool is_cut = rows_before + lane_rows > left;
    if (__ballot_sync(kAllLanes, is_cut) != 0) {
      lane_tiles = 0;
      int64_t start = rows_before < left ? rows_before : left;
#pragma unroll
      for (int i = 0; i < kLaneGroups; ++i) {
        const int64_t end = rows_before + ends[i] < left ? rows_before + ends[i] : left;
        tiles[i] = lane_tiles += tiles_of(first + i, end - start);
        start = end;
      }
      tiles_before = inclusive_sum(lane_tiles) - lane_tiles;
    }
    int64_t start = rows_before < left ? rows_before : left;
#pragma unroll
    for (int i = 0; i < kLaneGroups; ++i) {
      const int64_t end = rows_before + ends[i] < left ? rows_before + ends[i] : left;
      state_.rows_end[lane_ * kLaneGroups + i] = end;
      state_.tiles_end[lane_ * kLaneGroups + i] = tiles_before + tiles[i];
      if (first + i == state_.local.first) state_.local_start = state_.row_base + start;
      if (first + i + 1 == state_.local.end) state_.local_end = state_.row_base + end;
      start = end;
    }
    __syncwarp();
  }

  __device__ int64_t inclusive_sum(int64_t value) const {
#pragma unroll
    for (unsigned step = 1; step < kWarpSize; step *= 2) {
      const int64_t below = __shfl_up_sync(kAllLanes, value, step);
      if (lane_ >= step) value += below;
    }
    return value;
  }

  __device__ void record_first_error(const int64_t (&raw)[kLaneGroups], int64_t first,
                                     int64_t before, int64_t left) {
    int bad = kLaneGroups;
    int64_t bad_size = 0;
    int64_t bad_before = 0;
#pragma unroll
    for (int i = 0; i < kLaneGroups; ++i) {
      // True also for groups behind the first bad one, whose sum is cut: only the first is used.
      if (bad == kLaneGroups && (raw[i] < 0 || raw[i] > left - before)) {
        bad = i;
        bad_size = raw[i];
        bad_before = before;
      }
      before += raw[i] < 0 ? 0 : (raw[i] < left ? raw[i] : left);
    }
    const unsigned bad_lanes = __ballot_sync(kAllLanes, bad < kLaneGroups);
    if (bad_lanes == 0) return;
    __syncwarp();
    if (static_cast<int>(lane_) != __ffs(static_cast<int>(bad_lanes)) - 1) return;
    if (bad_size < 0) return record_error(kNegativeSize, first + bad, bad_size, args_.m);
    const int64_t sum_before = state_.row_base + bad_before;
    const int64_t sum = bad_size > INT64_MAX - sum_before ? INT64_MAX : sum_before + bad_size;
    record_error(kSumAboveM, first + bad, sum, args_.m);
  }

  ScanState& state_;
  const KernelArgs& args_;
  const TilesOf tiles_of_;
  const unsigned lane_;
};

}  // namespace graphsafe_gg
