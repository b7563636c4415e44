// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/executor.h"

#include <utility>

namespace graphsafe_gg::testing {
namespace {

const CudaApi& cu() { return sim::SimDriver::cuda_table(); }
const GraphApi& graphs() { return sim::SimDriver::graph_table(); }

sim::Stage stage_of(XLA_FFI_ExecutionStage stage, bool is_captured) {
  switch (stage) {
    case XLA_FFI_ExecutionStage_INSTANTIATE:
      return sim::Stage::kInstantiate;
    case XLA_FFI_ExecutionStage_PREPARE:
      return sim::Stage::kPrepare;
    case XLA_FFI_ExecutionStage_INITIALIZE:
      return sim::Stage::kInitialize;
    case XLA_FFI_ExecutionStage_EXECUTE:
      break;
  }
  return is_captured ? sim::Stage::kExecuteCapture : sim::Stage::kExecuteEager;
}

// Sets the thread's contexts for a handler, which must leave them, and the capture mode, as it
// found them.
class HandlerThread {
 public:
  HandlerThread(sim::SimDriver& driver, const std::string& name, const std::vector<int>& contexts)
      : driver_(driver), name_(name), contexts_(contexts) {
    std::lock_guard<std::mutex> lock(driver_.mutex);
    outer_contexts_ = std::exchange(driver_.context_stack(), contexts_);
    outer_mode_ = driver_.capture_mode();
  }
  ~HandlerThread() {
    std::lock_guard<std::mutex> lock(driver_.mutex);
    if (driver_.context_stack() != contexts_ || driver_.capture_mode() != outer_mode_) {
      driver_.violate(name_ + " left another context or capture mode behind");
    }
    driver_.context_stack() = outer_contexts_;
    driver_.capture_mode() = outer_mode_;
  }
  HandlerThread(const HandlerThread&) = delete;
  HandlerThread& operator=(const HandlerThread&) = delete;

 private:
  sim::SimDriver& driver_;
  const std::string& name_;
  const std::vector<int> contexts_;
  std::vector<int> outer_contexts_;
  int outer_mode_ = 0;
};

}  // namespace

// One execution on one device.
struct Executable::Run {
  Device& device;
  int64_t run_id;
  Blocks blocks;
  int64_t iteration = 0;

  DevicePtr address(const Program& program, size_t buffer) const {
    const LogicalBuffer& logical = program.buffers.at(buffer);
    if (logical.storage != Storage::kSlice) return blocks.at(buffer)->address();
    return address(program, logical.base) +
           static_cast<DevicePtr>(iteration) * logical.size_bytes();
  }
};

Executable::Executable(Machine& machine, Program program, const ExecutableOptions& options)
    : machine_(machine), program_(std::move(program)), options_(options) {
  instantiate(program_.thunks);
  items_ = convert(program_.thunks);
  if (!command_buffers_.empty()) machine_.evict_all();
  machine_.enter(this);
}

Executable::~Executable() { machine_.leave(this); }

void Executable::instantiate(const std::vector<Thunk>& thunks) {
  for (const Thunk& thunk : thunks) {
    instantiate(thunk.body);
    if (thunk.kind != Thunk::Kind::kCall) continue;
    const Target& found = targets_[thunk.name] = find_target(thunk.name);
    if (found.instantiate == nullptr) continue;
    const sim::StageScope stage(sim::Stage::kInstantiate);
    call_handler(found.instantiate, XLA_FFI_ExecutionStage_INSTANTIATE, Context{}, {}, {},
                 thunk.attributes);
  }
}

bool Executable::is_capturable(const Thunk& thunk) const {
  if (!options_.has_command_buffers || thunk.kind == Thunk::Kind::kLoop) return false;
  return thunk.kind == Thunk::Kind::kCall ? target(thunk).is_capturable : thunk.is_capturable;
}

std::vector<Executable::Item> Executable::convert(const std::vector<Thunk>& thunks) {
  std::vector<Item> items;
  for (size_t begin = 0; begin < thunks.size();) {
    size_t end = begin;
    while (end < thunks.size() && is_capturable(thunks[end])) ++end;
    if (end - begin >= std::max<size_t>(1, options_.min_graph_size)) {
      Item item;
      for (size_t i = begin; i < end; ++i) item.thunks.push_back(&thunks[i]);
      item.command_buffer = command_buffers_.size();
      command_buffers_.push_back(item.thunks);
      items.push_back(std::move(item));
      begin = end;
      continue;
    }
    for (end = std::max(end, begin + 1); begin < end; ++begin) {
      Item item;
      item.thunks = {&thunks[begin]};
      item.body = convert(thunks[begin].body);
      items.push_back(std::move(item));
    }
  }
  return items;
}

Executable::PerDevice& Executable::on(int ordinal) {
  std::lock_guard<std::mutex> lock(mutex_);
  PerDevice& device = devices_[ordinal];
  while (device.command_buffers.size() < command_buffers_.size()) {
    device.command_buffers.push_back(
        std::make_unique<CommandBuffer>(command_buffers_[device.command_buffers.size()],
                                        options_.trace_cache_size, counters_.commands));
  }
  return device;
}

void Executable::evict() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [ordinal, device] : devices_) {
    for (const auto& command_buffer : device.command_buffers) command_buffer->evict();
  }
}

std::vector<std::vector<std::vector<int>>> Executable::node_types(int ordinal) {
  std::vector<std::vector<std::vector<int>>> types;
  for (const auto& buffer : on(ordinal).command_buffers) types.push_back(buffer->node_types());
  return types;
}

Blocks Executable::run(int ordinal, const Blocks& params) {
  Run run{machine_.device(ordinal), machine_.next_run_id(), {}};
  counters_.runs.fetch_add(1);
  Blocks results = allocate(run, params);
  prepare(run, items_);
  initialize(run, items_);
  execute(run, items_);
  return results;
}

Blocks Executable::allocate(Run& run, const Blocks& params) {
  Blocks results;
  const ContextScope scope(run.device.context());
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const LogicalBuffer& buffer = program_.buffers[i];
    if (buffer.storage == Storage::kSlice) continue;
    if (buffer.storage == Storage::kParam) {
      run.blocks[i] = params.at(i);
      continue;
    }
    if (buffer.storage == Storage::kResult && buffer.base != 0) {
      results[i] = run.blocks[i] = params.at(buffer.base - 1);
      continue;
    }
    run.blocks[i] = run.device.allocate(buffer.size_bytes());
    if (buffer.storage == Storage::kResult) results[i] = run.blocks[i];
    if (options_.poisons_results && buffer.size_bytes() > 0) {
      check_xla(graphs().memset_d8_async(run.blocks[i]->address(), 0xff, buffer.size_bytes(),
                                         run.device.stream()),
                "cuMemsetD8Async");
    }
  }
  return results;
}

void Executable::prepare(Run& run, const std::vector<Item>& items) {
  const Context context{false, nullptr, run.device.ordinal(), run.run_id};
  for (const Item& item : items) {
    const bool is_twice = options_.initializes_twice && item.command_buffer;
    for (int round = 0; round < (is_twice ? 2 : 1); ++round) {
      for (const Thunk* thunk : item.thunks) {
        if (thunk->kind != Thunk::Kind::kCall || target(*thunk).prepare == nullptr) continue;
        call(run, *thunk, target(*thunk).prepare, XLA_FFI_ExecutionStage_PREPARE, context);
      }
    }
    prepare(run, item.body);
  }
}

void Executable::initialize(Run& run, const std::vector<Item>& items) {
  const Context context{true, run.device.stream(), run.device.ordinal(), run.run_id};
  for (const Item& item : items) {
    const bool is_twice = options_.initializes_twice && item.command_buffer;
    for (int round = 0; round < (is_twice ? 2 : 1); ++round) {
      for (const Thunk* thunk : item.thunks) {
        if (thunk->kind != Thunk::Kind::kCall || target(*thunk).initialize == nullptr) continue;
        call(run, *thunk, target(*thunk).initialize, XLA_FFI_ExecutionStage_INITIALIZE, context);
      }
    }
    if (item.command_buffer) {
      on(run.device.ordinal())
          .command_buffers[*item.command_buffer]
          ->initialize(run.device, runner(run));
    }
    initialize(run, item.body);
  }
}

void Executable::execute(Run& run, const std::vector<Item>& items) {
  for (const Item& item : items) {
    if (item.command_buffer) {
      on(run.device.ordinal())
          .command_buffers[*item.command_buffer]
          ->execute(run.device, runner(run));
      continue;
    }
    const Thunk& thunk = *item.thunks.front();
    if (thunk.kind != Thunk::Kind::kLoop) {
      execute_thunk(run, thunk, run.device.stream(), /*is_captured=*/false);
      continue;
    }
    const int64_t outer = run.iteration;
    for (run.iteration = 0; run.iteration < thunk.num_iterations; ++run.iteration) {
      if (thunk.blocks_host) run.device.synchronize();
      execute(run, item.body);
    }
    run.iteration = outer;
  }
}

CommandRunner Executable::runner(Run& run) {
  return {[this, &run](const Thunk& thunk) {
            Addresses addresses;
            for (const size_t operand : thunk.operands) {
              addresses.push_back(run.address(program_, operand));
            }
            for (const size_t result : thunk.results) {
              addresses.push_back(run.address(program_, result));
            }
            return addresses;
          },
          [this, &run](const Thunk& thunk, CUstream stream, bool is_captured) {
            execute_thunk(run, thunk, stream, is_captured);
          }};
}

void Executable::execute_thunk(Run& run, const Thunk& thunk, CUstream stream, bool is_captured) {
  if (thunk.kind == Thunk::Kind::kCall) {
    const Context context{true, stream, run.device.ordinal(), run.run_id};
    (is_captured ? counters_.captured_calls : counters_.eager_calls).fetch_add(1);
    call(run, thunk, target(thunk).execute, XLA_FFI_ExecutionStage_EXECUTE, context);
    return;
  }
  const ContextScope scope(run.device.context());
  if (thunk.kind == Thunk::Kind::kCopy) {
    check_xla(
        graphs().memcpy_dtod_async(run.address(program_, thunk.results.at(0)),
                                   run.address(program_, thunk.operands.at(0)),
                                   program_.buffers.at(thunk.results.at(0)).size_bytes(), stream),
        "cuMemcpyDtoDAsync");
    return;
  }
  std::vector<uint64_t> values;
  for (const size_t operand : thunk.operands) values.push_back(run.address(program_, operand));
  for (const int64_t scalar : thunk.scalars) values.push_back(static_cast<uint64_t>(scalar));
  std::vector<void*> pointers;
  for (uint64_t& value : values) pointers.push_back(&value);
  check_xla(cu().launch_kernel(run.device.test_kernel(thunk.name), 1, 1, 1, 32, 1, 1, 0, stream,
                               pointers.data(), nullptr),
            "cuLaunchKernel");
}

void Executable::call(Run& run, const Thunk& thunk, XLA_FFI_Handler* handler,
                      XLA_FFI_ExecutionStage stage, const Context& context) {
  const auto to_args = [&](const std::vector<size_t>& buffers) {
    std::vector<BufferArg> args;
    for (const size_t buffer : buffers) {
      const LogicalBuffer& logical = program_.buffers.at(buffer);
      args.push_back(
          {logical.dtype, logical.dims, reinterpret_cast<void*>(run.address(program_, buffer))});
    }
    return args;
  };
  const bool is_captured = context.has_stream && context.stream != run.device.stream();
  const sim::StageScope scope(stage_of(stage, is_captured));
  const HandlerThread thread(machine_.driver(), thunk.name, current_contexts(run.device));
  call_handler(handler, stage, context, to_args(thunk.operands), to_args(thunk.results),
               thunk.attributes);
}

std::vector<int> Executable::current_contexts(const Device& device) const {
  if (options_.context == CurrentContext::kNone) return {};
  if (options_.context == CurrentContext::kOwn) return {device.ordinal()};
  return {device.ordinal() == 0 ? 1 : 0};
}

}  // namespace graphsafe_gg::testing
