// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The blocks of one cluster while they run: threads, warps and shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "testing/emulation/async_copies.h"
#include "testing/emulation/barriers.h"
#include "testing/emulation/fiber.h"
#include "testing/emulation/memory.h"
#include "testing/emulation/scheduler.h"
#include "testing/emulation/wgmma.h"

namespace graphsafe_gg::emulation {

constexpr int kLanes = 32;
constexpr int kMaxClusterSize = 4;
constexpr uint32_t kMaxSharedBytes = 227 << 10;
// The first address of a block's shared memory; below it the system keeps its own.
constexpr uint32_t kSharedBase = 1024;

struct Block;
struct Cluster;

// Threads of a warp that wait for each other at one instruction.
struct Meeting {
  const char* what = nullptr;
  int arrived = 0;
  std::array<void*, kLanes> payloads;
  Waiters waiters;
};

struct Warp {
  Block* block = nullptr;
  int index = 0;
  uint64_t priority = 0;
  uint64_t seed = 0;
  Waiters ready;   // lanes that can run
  Waiters paused;  // lanes that let other warps go first
  Meeting meeting;
  WgmmaQueue products;
};

struct Thread {
  Block* block = nullptr;
  Warp* warp = nullptr;
  unsigned index = 0;
  bool is_done = false;
  uint64_t num_pauses = 0;
  Waiting waiting;
  Fiber fiber;
  ElementCopies copies;
  WgmmaLane products;
  // What it wrote or made ready and no fence has shown to the asynchronous units yet.
  std::vector<uint32_t> unfenced_stores;
  std::vector<Mbarrier*> unfenced_barriers;

  unsigned lane() const { return index % kLanes; }
};

struct Block {
  Cluster* cluster = nullptr;
  unsigned rank = 0;
  unsigned index = 0;  // blockIdx.x
  // Shared memory as loads and stores see it, and as the asynchronous units do.
  unsigned char* shared = nullptr;
  std::vector<unsigned char> async_view;
  std::deque<Thread> threads;
  std::deque<Warp> warps;
  std::unordered_map<uint32_t, Mbarrier> mbarriers;
  std::unordered_map<int, ThreadBarrier> named_barriers;
  size_t num_done = 0;

  bool is_done() const { return num_done == threads.size(); }
  // Fails unless the bytes are the block's and aligned.
  uint32_t offset(uint32_t address, uint32_t bytes, uint32_t alignment, const char* what) const;
  unsigned char* at(uint32_t address, uint32_t bytes, uint32_t alignment, const char* what) {
    return shared + offset(address, bytes, alignment, what);
  }
  // By the copy engine or a fence: seen by both.
  void write_both(uint32_t address, const void* bytes, uint32_t count, const char* what);
};

struct Cluster {
  Scheduler& scheduler;
  const Memory& memory;
  uint32_t shared_bytes;
  std::deque<Block> blocks;
  ThreadBarrier barrier;
};

// Of the running thread.
inline Thread& self() { return Scheduler::current(); }
inline Scheduler& scheduler() { return self().block->cluster->scheduler; }

}  // namespace graphsafe_gg::emulation
