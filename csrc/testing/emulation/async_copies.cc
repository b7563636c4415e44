// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/async_copies.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "testing/emulation/cluster.h"
#include "testing/emulation/swizzle.h"
#include "testing/encoded_map.h"

namespace graphsafe_gg::emulation {
namespace {

void land(Block& block, const ElementCopies::Copy& copy) {
  unsigned char bytes[16] = {};
  std::memcpy(bytes, copy.from, copy.live_bytes);
  std::memcpy(block.at(copy.smem, copy.bytes, copy.bytes, "cp.async"), bytes, copy.bytes);
}

constexpr uint32_t kBoxAlignment = 128;

uint32_t box_rows(const sim::EncodedMap& map) {
  uint32_t rows = 1;
  for (uint32_t i = 1; i < map.rank; ++i) rows *= map.box[i];
  return rows;
}

// One row of a box: zeros where the map has no elements. Returns false on an illegal address.
bool read_row(const Memory& memory, const sim::EncodedMap& map, const std::vector<int>& at,
              uint32_t row, unsigned char* to) {
  const uint32_t row_bytes = map.box[0] * map.element_bytes;
  std::memset(to, 0, row_bytes);
  int64_t offset = 0;
  for (uint32_t i = 1; i < map.rank; ++i) {
    const int64_t index = int64_t{at[i]} + row % map.box[i];
    row /= map.box[i];
    if (index < 0 || index >= static_cast<int64_t>(map.dims[i])) return true;
    offset += index * static_cast<int64_t>(map.strides[i - 1]);
  }
  const int64_t first = std::max<int64_t>(at[0], 0);
  const int64_t end =
      std::min<int64_t>(int64_t{at[0]} + map.box[0], static_cast<int64_t>(map.dims[0]));
  if (end <= first) return true;
  const auto* from =
      reinterpret_cast<const unsigned char*>(map.address) + offset + first * map.element_bytes;
  const auto count = static_cast<size_t>(end - first) * map.element_bytes;
  if (!memory.holds(from, count)) return false;
  std::memcpy(to + (first - at[0]) * map.element_bytes, from, count);
  return true;
}

void land(Block& block, const sim::EncodedMap& map, const BoxCopy& copy) {
  Cluster& cluster = *block.cluster;
  if (block.is_done()) cluster.scheduler.fail("a box lands in a block that has ended");
  const uint32_t row_bytes = map.box[0] * map.element_bytes;
  std::vector<unsigned char> bytes(row_bytes);
  const uint32_t rows = box_rows(map);
  for (uint32_t row = 0; row < rows; ++row) {
    if (!read_row(cluster.memory, map, copy.at, row, bytes.data())) {
      cluster.scheduler.fail("a box reads outside of the operands");
    }
    for (uint32_t chunk = 0; chunk < row_bytes; chunk += kSwizzleChunkBytes) {
      block.write_both(swizzle_128(copy.smem + row * row_bytes + chunk), bytes.data() + chunk,
                       kSwizzleChunkBytes, "a box");
    }
  }
  mbarrier_complete(block, copy.barrier, rows * row_bytes);
}

}  // namespace

void copy_async(uint32_t smem, const void* from, uint32_t bytes, uint32_t live_bytes) {
  Thread& thread = self();
  const auto address = reinterpret_cast<uintptr_t>(from);
  if (address % bytes != 0) scheduler().fail("cp.async from an address that is not aligned");
  const std::vector<unsigned char> poison(bytes, 0xff);
  std::memcpy(thread.block->at(smem, bytes, bytes, "cp.async"), poison.data(), bytes);
  const ElementCopies::Copy copy = {smem, static_cast<const unsigned char*>(from), bytes,
                                    live_bytes};
  for (uint32_t i = 0; i < bytes; i += 16) thread.unfenced_stores.push_back(smem & ~15u);
  if (scheduler().acts_at_once()) {
    land(*thread.block, copy);
  } else {
    thread.copies.copies.push_back(copy);
  }
}

void commit_copies() {
  ElementCopies& pending = self().copies;
  pending.group_ends.push_back(pending.copies.size());
}

void wait_for_copies(size_t max_pending) {
  scheduler().pause();
  Thread& thread = self();
  auto& [copies, ends] = thread.copies;
  if (ends.size() <= max_pending) return;
  const size_t num_groups = ends.size() - max_pending;
  const size_t num_copies = ends[num_groups - 1];
  for (size_t i = 0; i < num_copies; ++i) land(*thread.block, copies[i]);
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(num_copies));
  ends.erase(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(num_groups));
  for (size_t& end : ends) end -= num_copies;
}

void copy_box_async(const BoxCopy& copy, uint32_t blocks) {
  Block& own = *self().block;
  sim::EncodedMap map;
  std::memcpy(&map, copy.map, sizeof(map));
  if (map.mark != sim::kMapMark || map.rank != copy.at.size()) {
    scheduler().fail("a tensor map of another rank, or none");
  }
  if (blocks == 0) blocks = 1u << own.rank;
  const uint32_t box_bytes = box_rows(map) * map.box[0] * map.element_bytes;
  const std::vector<unsigned char> poison(box_bytes, 0xff);
  for (Block& block : own.cluster->blocks) {
    if ((blocks >> block.rank & 1u) == 0) continue;
    block.offset(copy.smem, box_bytes, kBoxAlignment, "a box");
    block.write_both(copy.smem, poison.data(), box_bytes, "a box");
    check_mbarrier(block, copy.barrier, /*is_remote=*/true);
    own.cluster->scheduler.defer([&block, map, copy] { land(block, map, copy); });
  }
}

}  // namespace graphsafe_gg::emulation
