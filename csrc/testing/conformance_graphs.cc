// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Checks of graphs: launch, update, child graphs, user objects.
#include <atomic>
#include <chrono>
#include <thread>

#include "testing/conformance.h"
#include "testing/sim_types.h"

namespace graphsafe_gg::testing {
namespace {

using sim::kModeThreadLocal;

constexpr int kFewTries = 25;

CUgraph capture_copy(Bench& b, unsigned char* host, cuda::DevicePtr device,
                     CUevent event = nullptr) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.copy_out(host, device, stream);
  if (event != nullptr) {
    b.ok(b.cuda().event_record_with_flags(event, stream, cuda::kEventRecordExternal),
         "the external record");
  }
  return b.end(stream);
}

// A graph whose one node is a child graph; the node comes out as well.
CUgraph wrap(Bench& b, CUgraph child, CUgraphNode* node) {
  CUgraph graph = nullptr;
  b.ok(b.graphs().graph_create(&graph, 0), "cuGraphCreate");
  b.ok(b.graphs().graph_add_child_graph_node(node, graph, nullptr, 0, child),
       "cuGraphAddChildGraphNode");
  return graph;
}

// Adds to a counter when the last reference goes.
CUuserObject make_object(Bench& b, std::atomic<int>& num_destroyed) {
  CUuserObject object = nullptr;
  b.ok(b.cuda().user_object_create(
           &object, &num_destroyed,
           [](void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }, 1,
           cuda::kUserObjectNoDestructorSync),
       "cuUserObjectCreate");
  return object;
}

void retain(Bench& b, CUgraph graph, CUuserObject object) {
  b.ok(b.cuda().graph_retain_user_object(graph, object, 1, cuda::kGraphUserObjectMove),
       "cuGraphRetainUserObject");
}

// The driver's own thread runs destructors; it gets a while, and work to wait for.
bool becomes(Bench& b, const std::atomic<int>& counter, int value, int num_tries = 500) {
  const CUstream stream = b.stream();
  for (int i = 0; i < num_tries && counter.load() != value; ++i) {
    static_cast<void>(b.graphs().stream_synchronize(stream));
    b.device_bytes(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return counter.load() == value;
}

void replay_reads_the_bytes_of_its_time(Bench& b) {
  const CUstream stream = b.stream();
  const cuda::DevicePtr device = b.device_bytes(1);
  unsigned char* host = b.pinned();
  const CUgraphExec exec = b.instantiate(capture_copy(b, host, device));
  for (unsigned char value = 2; value < 5; ++value) {
    b.fill(device, value, stream);
    b.launch(exec, stream);
    b.synchronize(stream);
    b.expect(host[0] == value, "a replay must copy what the device holds then");
  }
}

void external_record_is_a_node(Bench& b) {
  const CUgraph graph = capture_copy(b, b.pinned(), b.device_bytes(0), b.event());
  const std::vector<int> wanted = {sim::kNodeMemcpy, sim::kNodeEventRecord};
  b.expect(b.node_types(graph) == wanted, "nodes must be a memcpy and an event record");
}

void external_event_is_pending_from_the_launch(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  const CUgraphExec exec = b.instantiate(capture_copy(b, b.pinned(), b.device_bytes(0), event));
  for (int replay = 0; replay < 3; ++replay) {
    b.close_gate(stream);
    b.launch(exec, stream);
    b.expect_code(b.cuda().event_query(event), sim::kNotReady, "a query after the launch");
    b.open_gates();
    b.ok(b.cuda().event_synchronize(event), "cuEventSynchronize");
  }
}

void external_event_covers_the_copy_before_it(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  const cuda::DevicePtr device = b.device_bytes(0);
  unsigned char* host = b.pinned();
  const CUgraphExec exec = b.instantiate(capture_copy(b, host, device, event));
  for (unsigned char value = 1; value < 20; ++value) {
    b.fill(device, value, stream);
    b.launch(exec, stream);
    b.ok(b.cuda().event_synchronize(event), "cuEventSynchronize");
    b.expect(host[0] == value && host[Bench::kBytes - 1] == value, "the copy must be whole");
  }
}

void child_graph_runs(Bench& b) {
  const CUstream stream = b.stream();
  unsigned char* host = b.pinned();
  CUgraphNode node = nullptr;
  const CUgraph graph = wrap(b, capture_copy(b, host, b.device_bytes(6)), &node);
  b.launch(b.instantiate(graph), stream);
  b.synchronize(stream);
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  b.expect(host[0] == 6, "the child's copy must run");
}

void child_update_serves_later_launches_only(Bench& b) {
  const CUstream stream = b.stream();
  unsigned char* first = b.pinned();
  unsigned char* second = b.pinned();
  const cuda::DevicePtr device = b.device_bytes(6);
  CUgraphNode node = nullptr;
  const CUgraph graph = wrap(b, capture_copy(b, first, device), &node);
  const CUgraphExec exec = b.instantiate(graph);
  b.close_gate(stream);
  b.launch(exec, stream);
  b.ok(b.graphs().graph_exec_child_graph_node_set_params(exec, node,
                                                         capture_copy(b, second, device)),
       "the update");
  b.open_gates();
  b.synchronize(stream);
  b.expect(first[0] == 6 && second[0] == 0, "a launch under way must keep its addresses");
  b.launch(exec, stream);
  b.synchronize(stream);
  b.expect(second[0] == 6, "a later launch must use the new address");
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
}

void child_update_keeps_the_topology(Bench& b) {
  const cuda::DevicePtr device = b.device_bytes(0);
  unsigned char* host = b.pinned();
  CUgraphNode node = nullptr;
  const CUgraph graph = wrap(b, capture_copy(b, host, device), &node);
  const CUgraphExec exec = b.instantiate(graph);
  const cuda::Result result = b.graphs().graph_exec_child_graph_node_set_params(
      exec, node, capture_copy(b, host, device, b.event()));
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  b.expect(result != cuda::kSuccess, "another number of nodes must be refused");
}

void exec_outlives_its_graph(Bench& b) {
  const CUstream stream = b.stream();
  unsigned char* host = b.pinned();
  CUgraphNode node = nullptr;
  const CUgraph graph = wrap(b, capture_copy(b, host, b.device_bytes(8)), &node);
  const CUgraphExec exec = b.instantiate(graph);
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  b.launch(exec, stream);
  b.synchronize(stream);
  b.expect(host[0] == 8, "the executable graph must still run");
}

void capture_tells_its_graph(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  int status = 0;
  CUgraph graph = nullptr;
  b.ok(
      b.cuda().stream_get_capture_info(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr),
      "cuStreamGetCaptureInfo");
  b.expect(status == sim::kCaptureActive, "the capture must be active");
  b.expect(b.end(stream) == graph, "the end must return the graph that was told");
}

void user_object_lives_as_long_as_the_exec(Bench& b) {
  std::atomic<int> num_destroyed{0};
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  b.ok(b.graphs().graph_create(&graph, 0), "cuGraphCreate");
  retain(b, graph, make_object(b, num_destroyed));
  b.ok(b.graphs().graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  b.expect(!becomes(b, num_destroyed, 1, kFewTries), "the executable graph must hold the object");
  b.ok(b.graphs().graph_exec_destroy(exec), "cuGraphExecDestroy");
  b.expect(becomes(b, num_destroyed, 1), "the object must go with the executable graph");
}

void user_object_outlives_a_launch_under_way(Bench& b) {
  std::atomic<int> num_destroyed{0};
  const CUstream held = b.stream();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  b.ok(b.graphs().graph_create(&graph, 0), "cuGraphCreate");
  retain(b, graph, make_object(b, num_destroyed));
  b.ok(b.graphs().graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  b.close_gate(held);
  b.launch(exec, held);
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  b.ok(b.graphs().graph_exec_destroy(exec), "cuGraphExecDestroy");
  b.expect(!becomes(b, num_destroyed, 1, kFewTries), "a launch under way must hold the object");
  b.open_gates();
  b.synchronize(held);
  b.expect(becomes(b, num_destroyed, 1), "the object must go when the launch is done");
}

void child_update_exchanges_user_objects(Bench& b) {
  std::atomic<int> num_old{0};
  std::atomic<int> num_new{0};
  CUgraph old_child = nullptr;
  CUgraph new_child = nullptr;
  CUgraphNode node = nullptr;
  b.ok(b.graphs().graph_create(&old_child, 0), "cuGraphCreate");
  b.ok(b.graphs().graph_create(&new_child, 0), "cuGraphCreate");
  retain(b, old_child, make_object(b, num_old));
  retain(b, new_child, make_object(b, num_new));
  const CUgraph graph = wrap(b, old_child, &node);
  CUgraphExec exec = nullptr;
  b.ok(b.graphs().graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  b.ok(b.graphs().graph_exec_child_graph_node_set_params(exec, node, new_child), "the update");
  b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  b.ok(b.graphs().graph_destroy(old_child), "cuGraphDestroy");
  b.ok(b.graphs().graph_destroy(new_child), "cuGraphDestroy");
  b.expect(becomes(b, num_old, 1), "the old child's object must go with the update");
  b.expect(num_new.load() == 0, "the new child's object must stay");
  b.ok(b.graphs().graph_exec_destroy(exec), "cuGraphExecDestroy");
  b.expect(becomes(b, num_new, 1), "the new child's object must go with the executable graph");
}

}  // namespace

std::vector<Check> graph_checks() {
  return {{"replay_reads_the_bytes_of_its_time", replay_reads_the_bytes_of_its_time},
          {"external_record_is_a_node", external_record_is_a_node},
          {"external_event_is_pending_from_the_launch", external_event_is_pending_from_the_launch},
          {"external_event_covers_the_copy_before_it", external_event_covers_the_copy_before_it},
          {"child_graph_runs", child_graph_runs},
          {"child_update_serves_later_launches_only", child_update_serves_later_launches_only},
          {"child_update_keeps_the_topology", child_update_keeps_the_topology},
          {"exec_outlives_its_graph", exec_outlives_its_graph},
          {"capture_tells_its_graph", capture_tells_its_graph},
          {"user_object_lives_as_long_as_the_exec", user_object_lives_as_long_as_the_exec},
          {"user_object_outlives_a_launch_under_way", user_object_outlives_a_launch_under_way},
          {"child_update_exchanges_user_objects", child_update_exchanges_user_objects}};
}

}  // namespace graphsafe_gg::testing
