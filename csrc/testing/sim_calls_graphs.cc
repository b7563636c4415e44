// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Calls about graphs and the user objects that they retain.
#include "testing/sim_calls.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {

uint64_t SimDriver::node_handle(uint64_t graph, size_t index) {
  for (const auto& [handle, place] : nodes) {
    if (place == std::make_pair(graph, index)) return handle;
  }
  const uint64_t handle = new_id();
  nodes[handle] = {graph, index};
  return handle;
}

namespace calls {
namespace {

std::shared_ptr<GraphBody> find_graph(Call& call, CUgraph graph) {
  const auto found = call->graphs.find(to_id(graph));
  return found == call->graphs.end() ? nullptr : found->second;
}

bool enter_here(Call& call) { return call.is_open() && call.enter(call->current_ordinal()); }

}  // namespace

Result graph_create(CUgraph* graph, unsigned) {
  Call call("cuGraphCreate");
  if (!enter_here(call)) return call.result();
  const uint64_t id = call->new_id();
  call->graphs[id] = std::make_shared<GraphBody>();
  *graph = to_handle<CUgraph>(id);
  return kSuccess;
}

Result graph_destroy(CUgraph graph) {
  Call call("cuGraphDestroy");
  if (!enter_here(call)) return call.result();
  if (call->graphs.erase(to_id(graph)) == 0) return call.done(kInvalidValue);
  for (auto node = call->nodes.begin(); node != call->nodes.end();) {
    node = node->second.first == to_id(graph) ? call->nodes.erase(node) : std::next(node);
  }
  return kSuccess;
}

Result graph_get_nodes(CUgraph graph, CUgraphNode* nodes, size_t* num_nodes) {
  Call call("cuGraphGetNodes");
  if (!enter_here(call)) return call.result();
  const auto body = find_graph(call, graph);
  if (body == nullptr) return call.done(kInvalidValue);
  const size_t room = nodes == nullptr ? 0 : *num_nodes;
  *num_nodes = body->nodes.size();
  for (size_t i = 0; i < std::min(room, body->nodes.size()); ++i) {
    nodes[i] = to_handle<CUgraphNode>(call->node_handle(to_id(graph), i));
  }
  return kSuccess;
}

Result graph_node_get_type(CUgraphNode node, int* type) {
  Call call("cuGraphNodeGetType");
  if (!enter_here(call)) return call.result();
  const auto place = call->nodes.find(to_id(node));
  if (place == call->nodes.end()) return call.done(kInvalidValue);
  *type = node_type(call->graphs.at(place->second.first)->nodes.at(place->second.second).work);
  return kSuccess;
}

Result graph_add_child_graph_node(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t num_dependencies, CUgraph child) {
  Call call("cuGraphAddChildGraphNode");
  if (!enter_here(call)) return call.result();
  const auto body = find_graph(call, graph);
  const auto added = find_graph(call, child);
  if (body == nullptr || added == nullptr) return call.done(kInvalidValue);
  std::vector<size_t> waits;
  for (size_t i = 0; i < num_dependencies; ++i) {
    const auto place = call->nodes.find(to_id(dependencies[i]));
    if (place == call->nodes.end() || place->second.first != to_id(graph)) {
      return call.done(kInvalidValue);
    }
    waits.push_back(place->second.second);
  }
  body->nodes.push_back({ChildGraph{std::make_shared<GraphBody>(*added)}, std::move(waits)});
  *node = to_handle<CUgraphNode>(call->node_handle(to_id(graph), body->nodes.size() - 1));
  return kSuccess;
}

Result graph_instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  Call call("cuGraphInstantiateWithFlags");
  if (!enter_here(call)) return call.result();
  const auto body = find_graph(call, graph);
  if (body == nullptr) return call.done(kInvalidValue);
  for (const auto& [id, capture] : call->captures) {
    if (capture.graph == to_id(graph)) return call.done(kInvalidValue);
  }
  const uint64_t id = call->new_id();
  call->execs[id] = {to_id(graph), std::make_shared<GraphBody>(*body)};
  *exec = to_handle<CUgraphExec>(id);
  return kSuccess;
}

// Launches that are under way keep what they were launched with.
Result graph_exec_child_graph_node_set_params(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  Call call("cuGraphExecChildGraphNodeSetParams");
  if (!enter_here(call)) return call.result();
  const auto updated = call->execs.find(to_id(exec));
  const auto place = call->nodes.find(to_id(node));
  const auto params = find_graph(call, child);
  if (updated == call->execs.end() || place == call->nodes.end() || params == nullptr ||
      place->second.first != updated->second.source) {
    return call.done(kInvalidValue);
  }
  auto body = std::make_shared<GraphBody>(*updated->second.body);
  auto* old = std::get_if<ChildGraph>(&body->nodes.at(place->second.second).work);
  if (old == nullptr || !has_same_topology(*old->body, *params)) return call.done(kInvalidValue);
  old->body = std::make_shared<GraphBody>(*params);
  updated->second.body = std::move(body);
  return kSuccess;
}

Result graph_exec_destroy(CUgraphExec exec) {
  Call call("cuGraphExecDestroy");
  if (!enter_here(call)) return call.result();
  return call.done(call->execs.erase(to_id(exec)) == 0 ? kInvalidValue : kSuccess);
}

Result graph_launch(CUgraphExec exec, CUstream stream) {
  Call call("cuGraphLaunch");
  Stream* found = call.is_open() ? call->find_stream(stream) : nullptr;
  if (!call.enter(found == nullptr ? -1 : found->ordinal)) return call.result();
  const auto launched = call->execs.find(to_id(exec));
  if (found == nullptr) return call.done(kInvalidHandle);
  if (launched == call->execs.end()) return call.done(kInvalidValue);
  if (found->capture != 0) return call.done(kNotSupported);
  return call.done(call->enqueue_graph(*found, launched->second.body));
}

Result user_object_create(CUuserObject* object, void* pointer, void (*destroy)(void*),
                          unsigned initial_refcount, unsigned flags) {
  Call call("cuUserObjectCreate");
  if (!enter_here(call)) return call.result();
  if (flags != cuda::kUserObjectNoDestructorSync || destroy == nullptr || initial_refcount == 0) {
    return call.done(kInvalidValue);
  }
  const uint64_t id = call->new_id();
  call->user_objects[id] = {std::make_shared<UserObject>(call->releases, destroy, pointer),
                            initial_refcount};
  *object = to_handle<CUuserObject>(id);
  return kSuccess;
}

Result user_object_release(CUuserObject object, unsigned count) {
  Call call("cuUserObjectRelease");
  if (!enter_here(call)) return call.result();
  const auto released = call->user_objects.find(to_id(object));
  if (released == call->user_objects.end() || count == 0) return call.done(kInvalidValue);
  released->second.second -= count;
  if (released->second.second <= 0) call->user_objects.erase(released);
  return kSuccess;
}

Result graph_retain_user_object(CUgraph graph, CUuserObject object, unsigned count,
                                unsigned flags) {
  Call call("cuGraphRetainUserObject");
  if (!enter_here(call)) return call.result();
  const auto body = find_graph(call, graph);
  const auto retained = call->user_objects.find(to_id(object));
  if (body == nullptr || retained == call->user_objects.end() || count == 0) {
    return call.done(kInvalidValue);
  }
  body->user_objects.push_back(retained->second.first);
  if (flags != cuda::kGraphUserObjectMove) return kSuccess;
  retained->second.second -= count;
  if (retained->second.second <= 0) call->user_objects.erase(retained);
  return kSuccess;
}

}  // namespace calls
}  // namespace graphsafe_gg::sim
