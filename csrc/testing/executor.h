// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Plays XLA: runs a program's thunks through the stages that XLA runs them through, and calls the
// real handlers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "testing/command_buffer.h"
#include "testing/machine.h"
#include "testing/program.h"

namespace graphsafe_gg::testing {

// Which context is current when a handler is called.
enum class CurrentContext { kOwn, kNone, kOther };

struct ExecutableOptions {
  bool has_command_buffers = true;
  size_t min_graph_size = 1;  // shorter runs of capturable thunks stay eager
  size_t trace_cache_size = 16;
  bool warms_up = true;            // else the very first execution is captured
  bool initializes_twice = false;  // captured calls, as jax up to 0.11.0
  bool poisons_results = true;     // results and temps start as 0xff
  CurrentContext context = CurrentContext::kOwn;
};

struct ExecutableCounters {
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> eager_calls{0};
  std::atomic<int64_t> captured_calls{0};
  CommandCounters commands;
};

using Blocks = std::map<size_t, std::shared_ptr<Block>>;  // by logical buffer

class Executable {
 public:
  // Instantiates every call, and evicts the command buffers of all executables of the machine.
  Executable(Machine& machine, Program program, const ExecutableOptions& options);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // Enqueues one execution and returns the result buffers, whose work may still be pending.
  Blocks run(int ordinal, const Blocks& params);
  void evict();
  const ExecutableCounters& counters() const { return counters_; }
  // Of each command buffer on the device, of each of its thunks: the types of its nodes.
  std::vector<std::vector<std::vector<int>>> node_types(int ordinal);
  const Program& program() const { return program_; }

 private:
  // Runs of thunks: one command buffer, or one thunk alone.
  struct Item {
    std::vector<const Thunk*> thunks;
    std::optional<size_t> command_buffer;
    std::vector<Item> body;  // of a loop
  };
  // One execution on one device.
  struct Run {
    Device& device;
    int64_t run_id;
    Blocks blocks;
    std::shared_ptr<Block> temps;
    int64_t iteration = 0;
  };
  struct PerDevice {
    std::vector<std::unique_ptr<CommandBuffer>> command_buffers;
  };

  std::vector<Item> convert(const std::vector<Thunk>& thunks);
  bool is_capturable(const Thunk& thunk) const;
  void instantiate(const std::vector<Thunk>& thunks);
  PerDevice& on(int ordinal);
  Blocks allocate(Run& run, const Blocks& params);
  void poison(const Run& run, const Block& block);
  DevicePtr address(const Run& run, size_t buffer) const;
  void prepare(Run& run, const std::vector<Item>& items);
  void initialize(Run& run, const std::vector<Item>& items);
  void execute(Run& run, const std::vector<Item>& items);
  void execute_thunk(Run& run, const Thunk& thunk, CUstream stream, bool is_captured);
  void call(Run& run, const Thunk& thunk, XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage,
            const Context& context);
  std::vector<int> current_contexts(const Device& device) const;
  CommandRunner runner(Run& run);
  const Target& target(const Thunk& thunk) const { return targets_.at(thunk.name); }

  Machine& machine_;
  const Program program_;
  const ExecutableOptions options_;
  std::map<std::string, Target> targets_;
  std::vector<std::vector<const Thunk*>> command_buffers_;
  std::vector<Item> items_;
  std::map<size_t, size_t> temp_offsets_;  // by logical buffer; temps are one allocation
  size_t temp_bytes_ = 0;
  ExecutableCounters counters_;
  std::mutex mutex_;
  std::map<int, PerDevice> devices_;  // guarded by mutex_; entries stay
};

}  // namespace graphsafe_gg::testing
