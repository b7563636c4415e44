// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Where threads wait for each other and for bytes: "mbarrier", "bar" and "barrier.cluster" of the
// PTX ISA.
#pragma once

#include <cstdint>
#include <string>

#include "testing/emulation/scheduler.h"

namespace graphsafe_gg::emulation {

struct Block;

struct Mbarrier {
  int64_t arrivals = 0;  // of a phase
  int64_t pending = 0;   // arrivals that the phase still waits for
  int64_t bytes = 0;     // expected and not there yet
  uint32_t phase = 0;
  bool is_fenced = false;  // seen by the copy engine and by the cluster
  Waiters waiters;
};

void mbarrier_init(uint32_t address, uint32_t arrivals);
void mbarrier_arrive(uint32_t address, uint32_t rank, bool is_remote);
void mbarrier_expect(uint32_t address, uint32_t bytes);
void mbarrier_wait(uint32_t address, uint32_t parity);
// By the copy engine.
void mbarrier_complete(Block& block, uint32_t address, uint32_t bytes);
// Fails unless it may be used, by another block or the copy engine if remote.
void check_mbarrier(Block& block, uint32_t address, bool is_remote);
std::string describe_mbarrier(Block& block, uint32_t address);

// Of a fixed number of threads.
struct ThreadBarrier {
  unsigned arrived = 0;
  unsigned count = 0;  // of those that wait now
  Waiters waiters;
};

// Every thread of `count` waits until all have arrived.
void meet_at(ThreadBarrier& barrier, unsigned count, const char* what);
void arrive_at(ThreadBarrier& barrier, unsigned count);

}  // namespace graphsafe_gg::emulation
