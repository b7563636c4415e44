// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A run of capturable thunks on one device: eager at first, then captured into one CUDA graph that
// is launched from there on. Each thunk is a child graph, traced anew when an address changes.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "testing/machine.h"
#include "testing/program.h"

namespace graphsafe_gg::testing {

using Addresses = std::vector<DevicePtr>;  // of a thunk's operands and results

// How the executor runs one thunk on a stream.
struct CommandRunner {
  std::function<Addresses(const Thunk&)> addresses;
  std::function<void(const Thunk&, CUstream, bool is_captured)> execute;
};

struct CommandCounters {
  std::atomic<int64_t> captures{0};  // traces of one thunk
  std::atomic<int64_t> graph_launches{0};
  std::atomic<int64_t> updates{0};  // thunks whose child graph was exchanged
};

class CommandBuffer {
 public:
  CommandBuffer(std::vector<const Thunk*> thunks, size_t trace_cache_size, bool is_warm,
                CommandCounters& counters)
      : thunks_(std::move(thunks)),
        cache_size_(trace_cache_size),
        counters_(counters),
        is_warm_(is_warm) {}
  ~CommandBuffer() { release(); }
  CommandBuffer(const CommandBuffer&) = delete;
  CommandBuffer& operator=(const CommandBuffer&) = delete;

  // Stage initialize: records if the warm-up is over and nothing was recorded yet.
  void initialize(Device& device, const CommandRunner& runner);
  void execute(Device& device, const CommandRunner& runner);
  // Back to the state before the warm-up.
  void evict();
  // Node types of each thunk's child graph; empty before the first record.
  std::vector<std::vector<int>> node_types();

 private:
  struct Trace {
    Addresses addresses;
    CUgraph graph;
  };
  struct Command {
    Addresses addresses;
    CUgraphNode node = nullptr;
    std::list<Trace> cache;  // last used first
  };
  void record(Device& device, const CommandRunner& runner);
  void update(Device& device, const CommandRunner& runner);
  CUgraph traced(Device& device, const CommandRunner& runner, size_t index,
                 const Addresses& addresses);
  CUgraph trace(Device& device, const CommandRunner& runner, const Thunk& thunk);
  void release();

  const std::vector<const Thunk*> thunks_;
  const size_t cache_size_;
  CommandCounters& counters_;
  std::mutex mutex_;  // guards all below; held from record to launch
  bool is_warm_;
  bool is_broken_ = false;
  std::vector<Command> commands_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

}  // namespace graphsafe_gg::testing
