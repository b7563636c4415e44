// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/executor.h"

namespace graphsafe_gg::testing {
namespace {

constexpr size_t kAlignment = 256;

const GraphApi& graphs() { return sim::SimDriver::graph_table(); }

}  // namespace

// A slice's place follows the loop's iteration.
DevicePtr Executable::address(const Run& run, size_t buffer) const {
  const LogicalBuffer& logical = program_.buffers.at(buffer);
  if (logical.storage == Storage::kTemp) return run.temps->address() + temp_offsets_.at(buffer);
  if (logical.storage != Storage::kSlice) return run.blocks.at(buffer)->address();
  return address(run, logical.base) + static_cast<DevicePtr>(run.iteration) * logical.size_bytes();
}

Executable::Executable(Machine& machine, Program program, const ExecutableOptions& options)
    : machine_(machine), program_(std::move(program)), options_(options) {
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    if (program_.buffers[i].storage != Storage::kTemp) continue;
    temp_offsets_[i] = temp_bytes_;
    temp_bytes_ += (program_.buffers[i].size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
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
    device.command_buffers.push_back(std::make_unique<CommandBuffer>(
        command_buffers_[device.command_buffers.size()], options_.trace_cache_size,
        !options_.warms_up, counters_.commands));
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
  Run run{machine_.device(ordinal), machine_.next_run_id(), {}, nullptr};
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
  if (temp_bytes_ > 0) {
    run.temps = run.device.allocate(temp_bytes_);
    poison(run, *run.temps);
  }
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const LogicalBuffer& buffer = program_.buffers[i];
    if (buffer.storage == Storage::kSlice || buffer.storage == Storage::kTemp) continue;
    if (buffer.storage == Storage::kParam) {
      run.blocks[i] = params.at(i);
      continue;
    }
    if (buffer.storage == Storage::kResult && buffer.base != 0) {
      results[i] = run.blocks[i] = params.at(buffer.base - 1);
      continue;
    }
    results[i] = run.blocks[i] = run.device.allocate(buffer.size_bytes());
    poison(run, *results[i]);
  }
  return results;
}

void Executable::poison(const Run& run, const Block& block) {
  if (!options_.poisons_results || block.size_bytes() == 0) return;
  check_xla(
      graphs().memset_d8_async(block.address(), 0xff, block.size_bytes(), run.device.stream()),
      "cuMemsetD8Async");
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
              addresses.push_back(address(run, operand));
            }
            for (const size_t result : thunk.results) {
              addresses.push_back(address(run, result));
            }
            return addresses;
          },
          [this, &run](const Thunk& thunk, CUstream stream, bool is_captured) {
            execute_thunk(run, thunk, stream, is_captured);
          }};
}

}  // namespace graphsafe_gg::testing
