// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Python's view of streams and graphs of the simulated driver, for callers who are not XLA.
#include "testing/bindings.h"
#include "testing/simulation.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

const GraphApi& api() { return sim::SimDriver::graph_table(); }

// As a caller's own code: no handler runs.
class CallerScope {
 public:
  CallerScope(Simulation& simulation, int device)
      : context_(simulation.machine().device(device).context()) {}

 private:
  const ContextScope context_;
};

uint64_t create_stream(Simulation& simulation, int device) {
  const CallerScope scope(simulation, device);
  CUstream stream = nullptr;
  check_xla(api().stream_create(&stream, sim::kStreamNonBlocking), "cuStreamCreate");
  return sim::to_id(stream);
}

void begin_capture(Simulation& simulation, uint64_t stream, int device) {
  const CallerScope scope(simulation, device);
  check_xla(api().stream_begin_capture(sim::to_handle<CUstream>(stream), sim::kModeThreadLocal),
            "cuStreamBeginCapture");
}

uint64_t end_capture(Simulation& simulation, uint64_t stream, int device) {
  const CallerScope scope(simulation, device);
  CUgraph graph = nullptr;
  check_xla(api().stream_end_capture(sim::to_handle<CUstream>(stream), &graph),
            "cuStreamEndCapture");
  return sim::to_id(graph);
}

uint64_t clone_into_parent(Simulation& simulation, uint64_t child, int device) {
  const CallerScope scope(simulation, device);
  CUgraph parent = nullptr;
  CUgraphNode node = nullptr;
  check_xla(api().graph_create(&parent, 0), "cuGraphCreate");
  check_xla(
      api().graph_add_child_graph_node(&node, parent, nullptr, 0, sim::to_handle<CUgraph>(child)),
      "cuGraphAddChildGraphNode");
  return sim::to_id(parent);
}

uint64_t instantiate(Simulation& simulation, uint64_t graph, int device) {
  const CallerScope scope(simulation, device);
  CUgraphExec exec = nullptr;
  check_xla(api().graph_instantiate(&exec, sim::to_handle<CUgraph>(graph), 0),
            "cuGraphInstantiate");
  return sim::to_id(exec);
}

void launch(Simulation& simulation, uint64_t exec, uint64_t stream, int device) {
  const CallerScope scope(simulation, device);
  check_xla(api().graph_launch(sim::to_handle<CUgraphExec>(exec), sim::to_handle<CUstream>(stream)),
            "cuGraphLaunch");
}

}  // namespace

void bind_graphs(nb::module_& m) {
  m.def("create_stream", &create_stream, nb::arg("simulation"), nb::arg("device") = 0);
  m.def(
      "destroy_stream",
      [](uint64_t stream) {
        check_xla(api().stream_destroy(sim::to_handle<CUstream>(stream)), "cuStreamDestroy");
      },
      nb::arg("stream"));
  m.def("begin_capture", &begin_capture, nb::arg("simulation"), nb::arg("stream"),
        nb::arg("device") = 0);
  m.def("end_capture", &end_capture, nb::arg("simulation"), nb::arg("stream"),
        nb::arg("device") = 0);
  // A new graph of one child node.
  m.def("clone_into_parent", &clone_into_parent, nb::arg("simulation"), nb::arg("child"),
        nb::arg("device") = 0);
  m.def("instantiate", &instantiate, nb::arg("simulation"), nb::arg("graph"),
        nb::arg("device") = 0);
  m.def("launch", &launch, nb::arg("simulation"), nb::arg("exec"), nb::arg("stream"),
        nb::arg("device") = 0);
  m.def(
      "destroy_graph",
      [](uint64_t graph) {
        check_xla(api().graph_destroy(sim::to_handle<CUgraph>(graph)), "cuGraphDestroy");
      },
      nb::arg("graph"));
  m.def(
      "destroy_exec",
      [](uint64_t exec) {
        check_xla(api().graph_exec_destroy(sim::to_handle<CUgraphExec>(exec)),
                  "cuGraphExecDestroy");
      },
      nb::arg("exec"));
}

}  // namespace graphsafe_gg::testing
