// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/thread_calls.h"

#include <cstring>
#include <string>

#include "testing/emulation/cluster.h"

namespace graphsafe_gg::emulation {
namespace {

constexpr uint32_t kPieceBytes = 16;
constexpr int kBlockBarrier = 0;

}  // namespace

uint32_t shared_address(const void* pointer) {
  const Block& block = *self().block;
  const std::ptrdiff_t offset = static_cast<const unsigned char*>(pointer) - block.shared;
  if (offset < 0 || offset > static_cast<std::ptrdiff_t>(block.cluster->shared_bytes)) {
    scheduler().fail("a pointer to other memory is taken for one to shared memory");
  }
  return kSharedBase + static_cast<uint32_t>(offset);
}

void load_shared(uint32_t smem, void* to, uint32_t bytes) {
  std::memcpy(to, self().block->at(smem, bytes, bytes, "ld.shared"), bytes);
}

void store_shared(uint32_t smem, const void* from, uint32_t bytes) {
  Thread& thread = self();
  std::memcpy(thread.block->at(smem, bytes, bytes, "st.shared"), from, bytes);
  thread.unfenced_stores.push_back(smem / kPieceBytes * kPieceBytes);
}

void fence_async() {
  Thread& thread = self();
  Block& block = *thread.block;
  for (const uint32_t smem : thread.unfenced_stores) {
    block.write_both(smem, block.at(smem, kPieceBytes, kPieceBytes, "fence"), kPieceBytes, "fence");
  }
  thread.unfenced_stores.clear();
  fence_barrier_init();
}

void fence_barrier_init() {
  for (Mbarrier* barrier : self().unfenced_barriers) barrier->is_fenced = true;
  self().unfenced_barriers.clear();
}

void sync_threads(int id, unsigned count) {
  meet_at(self().block->named_barriers[id], count, "bar.sync");
}

void sync_block() {
  sync_threads(kBlockBarrier, static_cast<unsigned>(self().block->threads.size()));
}

void sync_cluster() {
  Cluster& cluster = *self().block->cluster;
  const size_t count = cluster.blocks.size() * self().block->threads.size();
  meet_at(cluster.barrier, static_cast<unsigned>(count), "barrier.cluster");
}

uint32_t cluster_rank() { return self().block->rank; }

void check_global(const void* address, const char* what) {
  if (!self().block->cluster->memory.holds(address, 1)) {
    scheduler().fail(std::string(what) + " of an address outside of the operands");
  }
}

void check_alignment(const void* address, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(address) % alignment == 0) return;
  scheduler().fail(std::to_string(alignment) +
                   " bytes are stored to an address that is not aligned");
}

}  // namespace graphsafe_gg::emulation
