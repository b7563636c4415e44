// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/command_buffer.h"

#include <algorithm>

namespace graphsafe_gg::testing {
namespace {

const GraphApi& graphs() { return sim::SimDriver::graph_table(); }

}  // namespace

void CommandBuffer::initialize(Device& device, const CommandRunner& runner) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_warm_ && exec_ == nullptr) record(device, runner);
}

void CommandBuffer::execute(Device& device, const CommandRunner& runner) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!is_warm_) {
    for (const Thunk* thunk : thunks_) runner.execute(*thunk, device.stream(), false);
    is_warm_ = true;
    return;
  }
  if (exec_ == nullptr) record(device, runner);
  update(device, runner);
  const ContextScope scope(device.context());
  check_xla(graphs().graph_launch(exec_, device.stream()), "cuGraphLaunch");
  counters_.graph_launches.fetch_add(1);
}

void CommandBuffer::record(Device& device, const CommandRunner& runner) {
  if (is_broken_) {
    throw ExecutionError(XLA_FFI_Error_Code_INTERNAL,
                         "Recorded commands are not empty. Command executor can be recorded into "
                         "the command buffer at most once.");
  }
  is_broken_ = true;
  const ContextScope scope(device.context());
  check_xla(graphs().graph_create(&graph_, 0), "cuGraphCreate");
  commands_.resize(thunks_.size());
  CUgraphNode previous = nullptr;
  for (size_t i = 0; i < thunks_.size(); ++i) {
    Command& command = commands_[i];
    command.addresses = runner.addresses(*thunks_[i]);
    const CUgraph child = traced(device, runner, i, command.addresses);
    check_xla(graphs().graph_add_child_graph_node(&command.node, graph_, &previous,
                                                  previous == nullptr ? 0 : 1, child),
              "cuGraphAddChildGraphNode");
    previous = command.node;
  }
  check_xla(graphs().graph_instantiate(&exec_, graph_, 0), "cuGraphInstantiateWithFlags");
  is_broken_ = false;
}

void CommandBuffer::update(Device& device, const CommandRunner& runner) {
  const ContextScope scope(device.context());
  for (size_t i = 0; i < thunks_.size(); ++i) {
    Command& command = commands_[i];
    const Addresses addresses = runner.addresses(*thunks_[i]);
    if (addresses == command.addresses) continue;
    const CUgraph child = traced(device, runner, i, addresses);
    const cuda::Result status =
        graphs().graph_exec_child_graph_node_set_params(exec_, command.node, child);
    if (status != cuda::kSuccess) {
      throw ExecutionError(
          XLA_FFI_Error_Code_INTERNAL,
          "cuGraphExecChildGraphNodeSetParams: " + std::string(sim::error_name(status)) +
              ": another trace of " + thunks_[i]->name + " had other nodes");
    }
    command.addresses = addresses;
    counters_.updates.fetch_add(1);
  }
}

CUgraph CommandBuffer::traced(Device& device, const CommandRunner& runner, size_t index,
                              const Addresses& addresses) {
  std::list<Trace>& cache = commands_[index].cache;
  const auto found = std::find_if(cache.begin(), cache.end(), [&](const Trace& candidate) {
    return candidate.addresses == addresses;
  });
  if (found != cache.end()) {
    cache.splice(cache.begin(), cache, found);
    return cache.front().graph;
  }
  cache.push_front({addresses, trace(device, runner, *thunks_[index])});
  if (cache.size() > cache_size_) {
    static_cast<void>(graphs().graph_destroy(cache.back().graph));
    cache.pop_back();
  }
  return cache.front().graph;
}

CUgraph CommandBuffer::trace(Device& device, const CommandRunner& runner, const Thunk& thunk) {
  const CUstream stream = device.borrow_capture_stream();
  CUgraph graph = nullptr;
  try {
    check_xla(graphs().stream_begin_capture(stream, sim::kModeThreadLocal), "cuStreamBeginCapture");
    try {
      runner.execute(thunk, stream, true);
    } catch (...) {
      static_cast<void>(graphs().stream_end_capture(stream, &graph));
      if (graph != nullptr) static_cast<void>(graphs().graph_destroy(graph));
      throw;
    }
    check_xla(graphs().stream_end_capture(stream, &graph), "Failed to end stream capture");
  } catch (...) {
    device.give_back(stream);
    throw;
  }
  device.give_back(stream);
  counters_.captures.fetch_add(1);
  return graph;
}

void CommandBuffer::evict() {
  std::lock_guard<std::mutex> lock(mutex_);
  release();
  if (!is_broken_) is_warm_ = false;
}

void CommandBuffer::release() {
  const sim::StageScope stage(sim::Stage::kExecutor);
  if (exec_ != nullptr) static_cast<void>(graphs().graph_exec_destroy(exec_));
  if (graph_ != nullptr) static_cast<void>(graphs().graph_destroy(graph_));
  for (const Command& command : commands_) {
    for (const Trace& cached : command.cache) {
      static_cast<void>(graphs().graph_destroy(cached.graph));
    }
  }
  exec_ = nullptr;
  graph_ = nullptr;
  commands_.clear();
}

std::vector<std::vector<int>> CommandBuffer::node_types() {
  std::lock_guard<std::mutex> lock(mutex_);
  const sim::StageScope stage(sim::Stage::kExecutor);
  std::vector<std::vector<int>> types;
  for (const Command& command : commands_) {
    const CUgraph graph = command.cache.front().graph;
    size_t num_nodes = 0;
    check_xla(graphs().graph_get_nodes(graph, nullptr, &num_nodes), "cuGraphGetNodes");
    std::vector<CUgraphNode> nodes(num_nodes);
    check_xla(graphs().graph_get_nodes(graph, nodes.data(), &num_nodes), "cuGraphGetNodes");
    std::vector<int>& of_command = types.emplace_back();
    for (const CUgraphNode node : nodes) {
      check_xla(graphs().graph_node_get_type(node, &of_command.emplace_back()),
                "cuGraphNodeGetType");
    }
  }
  return types;
}

}  // namespace graphsafe_gg::testing
