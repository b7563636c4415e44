// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/barriers.h"

#include <cstring>

#include "testing/emulation/cluster.h"

namespace graphsafe_gg::emulation {
namespace {

constexpr uint32_t kMbarrierBytes = 8;
constexpr int64_t kMaxBytes = (1 << 20) - 1;
constexpr uint64_t kMark = 0xb000000000000000ull;  // in shared memory, for what overwrites it

std::string name_of(const Block& block, uint32_t address) {
  return "mbarrier " + std::to_string(address) + " of block " + std::to_string(block.index);
}

// Fails where the running thread may not use it.
Mbarrier& find(Block& block, uint32_t address, bool is_remote) {
  const auto found = block.mbarriers.find(address);
  if (found == block.mbarriers.end()) {
    scheduler().fail(name_of(block, address) + " is not initialised");
  }
  if (is_remote && !found->second.is_fenced) {
    scheduler().fail(name_of(block, address) + " is used from outside and was not fenced");
  }
  if (is_remote && block.is_done()) {
    scheduler().fail(name_of(block, address) + " is gone: its block has ended");
  }
  uint64_t mark;
  std::memcpy(&mark, block.at(address, kMbarrierBytes, kMbarrierBytes, "mbarrier"), sizeof(mark));
  if (mark != (kMark | address)) scheduler().fail(name_of(block, address) + " was overwritten");
  return found->second;
}

void complete_phase(Scheduler& scheduler, Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.phase ^= 1;
  barrier.pending = barrier.arrivals;
  scheduler.wake_all(barrier.waiters);
}

}  // namespace

void mbarrier_init(uint32_t address, uint32_t arrivals) {
  Block& block = *self().block;
  const uint64_t mark = kMark | address;
  std::memcpy(block.at(address, kMbarrierBytes, kMbarrierBytes, "mbarrier.init"), &mark,
              sizeof(mark));
  if (block.mbarriers.count(address) != 0) {
    scheduler().fail(name_of(block, address) + " is initialised twice");
  }
  Mbarrier& barrier = block.mbarriers[address];
  barrier.arrivals = barrier.pending = arrivals;
  self().unfenced_barriers.push_back(&barrier);
}

void mbarrier_arrive(uint32_t address, uint32_t rank, bool is_remote) {
  Cluster& cluster = *self().block->cluster;
  if (rank >= cluster.blocks.size()) {
    scheduler().fail("the cluster has no block " + std::to_string(rank));
  }
  Block& block = cluster.blocks[rank];
  Mbarrier& barrier = find(block, address, is_remote && &block != self().block);
  if (barrier.pending == 0) {
    scheduler().fail("one arrival too many at " + name_of(block, address));
  }
  --barrier.pending;
  complete_phase(scheduler(), barrier);
}

void mbarrier_expect(uint32_t address, uint32_t bytes) {
  Mbarrier& barrier = find(*self().block, address, /*is_remote=*/false);
  barrier.bytes += bytes;
  if (barrier.bytes > kMaxBytes) {
    scheduler().fail("more bytes than an mbarrier can count: " + std::to_string(barrier.bytes));
  }
}

void mbarrier_wait(uint32_t address, uint32_t parity) {
  Mbarrier& barrier = find(*self().block, address, /*is_remote=*/false);
  while (barrier.phase == parity) {
    scheduler().wait_in(barrier.waiters, {"mbarrier", address, parity});
  }
  scheduler().pause();
  find(*self().block, address, /*is_remote=*/false);
}

void mbarrier_complete(Block& block, uint32_t address, uint32_t bytes) {
  Mbarrier& barrier = block.mbarriers.at(address);
  barrier.bytes -= bytes;
  complete_phase(block.cluster->scheduler, barrier);
}

void check_mbarrier(Block& block, uint32_t address, bool is_remote) {
  find(block, address, is_remote);
}

std::string describe_mbarrier(Block& block, uint32_t address) {
  const auto found = block.mbarriers.find(address);
  if (found == block.mbarriers.end()) return "";
  return " (" + std::to_string(found->second.pending) + " arrivals and " +
         std::to_string(found->second.bytes) + " bytes are missing)";
}

void arrive_at(ThreadBarrier& barrier, unsigned count) {
  if (barrier.arrived != 0 && barrier.count != count) {
    scheduler().fail("a barrier of " + std::to_string(barrier.count) + " and of " +
                     std::to_string(count) + " threads");
  }
  barrier.count = count;
  if (++barrier.arrived < count) return;
  barrier.arrived = 0;
  scheduler().wake_all(barrier.waiters);
}

void meet_at(ThreadBarrier& barrier, unsigned count, const char* what) {
  arrive_at(barrier, count);
  if (barrier.arrived != 0) scheduler().wait_in(barrier.waiters, {what});
  scheduler().pause();
}

}  // namespace graphsafe_gg::emulation
