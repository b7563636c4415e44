// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/grid.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>

#include "testing/emulation/cluster.h"
#include "testing/emulation/cuda.h"
#include "testing/emulation/faults.h"

GridDim threadIdx;
GridDim blockIdx;
GridDim gridDim;
GridDim blockDim;

namespace graphsafe_gg {

// The dynamic shared memory that kernels name, block after block of a cluster; those that name it
// have clusters of one block.
alignas(1024) unsigned char gg_smem[emulation::kMaxClusterSize * emulation::kMaxSharedBytes];

namespace emulation {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned char kPoison = 0xff;

struct ThreadEntry {
  const Launch* launch;
  Thread* thread;
};

void enter(void* argument) {
  const auto& [launch, thread] = *static_cast<ThreadEntry*>(argument);
  launch->kernel.body(launch->args, launch->maps, thread->block->shared);
  thread->is_done = true;
}

// Kept for the next launch: stacks are many and large.
unsigned char* stacks(size_t count) {
  static size_t num_stacks = 0;
  static std::unique_ptr<unsigned char[]> memory;
  if (num_stacks < count) {
    memory.reset(new unsigned char[count * kStackBytes]);  // not initialised
    num_stacks = count;
  }
  return memory.get();
}

void add_block(Cluster& cluster, unsigned index, unsigned num_threads) {
  Block& block = cluster.blocks.emplace_back();
  block.cluster = &cluster;
  block.rank = static_cast<unsigned>(cluster.blocks.size() - 1);
  block.index = index;
  block.shared = gg_smem + block.rank * kMaxSharedBytes;
  std::memset(block.shared, kPoison, kMaxSharedBytes);
  block.async_view.assign(cluster.shared_bytes, kPoison);
  block.warps.resize(num_threads / kLanes);
  block.threads.resize(num_threads);
  for (unsigned i = 0; i < num_threads; ++i) {
    Thread& thread = block.threads[i];
    thread.block = &block;
    thread.index = i;
    thread.warp = &block.warps[i / kLanes];
    thread.warp->block = &block;
    thread.warp->index = static_cast<int>(i) / kLanes;
  }
}

void check_shared_memory(const Block& block) {
  const auto is_written = [](unsigned char byte) { return byte != kPoison; };
  if (std::any_of(block.shared + block.cluster->shared_bytes, block.shared + kMaxSharedBytes,
                  is_written)) {
    throw EmulationError("block " + std::to_string(block.index) +
                         " wrote past the end of its shared memory");
  }
}

void run_cluster(const Launch& launch, const Memory& memory, unsigned first_block, uint64_t seed) {
  const auto size = static_cast<unsigned>(std::max(launch.kernel.shape.cluster_size, 1));
  const auto num_threads = static_cast<unsigned>(launch.kernel.shape.num_threads);
  Scheduler scheduler(seed);
  Cluster cluster{scheduler, memory, launch.smem_bytes, {}, {}};
  for (unsigned rank = 0; rank < size; ++rank) add_block(cluster, first_block + rank, num_threads);
  unsigned char* stack = stacks(size * num_threads);
  std::vector<ThreadEntry> entries;
  entries.reserve(size * num_threads);
  std::vector<Thread*> threads;
  for (Block& block : cluster.blocks) {
    for (Thread& thread : block.threads) {
      entries.push_back({&launch, &thread});
      thread.fiber.start(&enter, &entries.back(), stack, kStackBytes);
      threads.push_back(&thread);
      stack += kStackBytes;
    }
  }
  scheduler.run(threads);
  for (const Block& block : cluster.blocks) check_shared_memory(block);
}

}  // namespace

std::vector<EmulatedKernel>& emulated_kernels() {
  static auto* kernels = new std::vector<EmulatedKernel>;
  return *kernels;
}

Registration::Registration(EmulatedKernel kernel) {
  emulated_kernels().push_back(std::move(kernel));
}

// Clusters run one after another, in an order that the seed draws.
void run(const Launch& launch, const Memory& memory) {
  static auto* mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  const FaultHandler handler;
  const auto size = static_cast<unsigned>(std::max(launch.kernel.shape.cluster_size, 1));
  ::gridDim.x = launch.num_blocks;
  ::blockDim.x = static_cast<unsigned>(launch.kernel.shape.num_threads);
  std::vector<unsigned> clusters(launch.num_blocks / size);
  std::iota(clusters.begin(), clusters.end(), 0);
  Random random(launch.seed);
  for (size_t i = clusters.size(); i > 1; --i) {
    std::swap(clusters[i - 1], clusters[random.draw() % i]);
  }
  for (const unsigned index : clusters) {
    // Other numbers by the same policy.
    const uint64_t seed = launch.seed + kNumPolicies * (random.draw() % 1000);
    run_cluster(launch, memory, index * size, seed);
  }
  const std::string spill = memory.find_spill();
  if (!spill.empty()) throw EmulationError("a store beside " + spill);
}

}  // namespace emulation
}  // namespace graphsafe_gg
