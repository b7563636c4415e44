// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Python's view of the simulated driver: time, memory, faults, the log.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "testing/bindings.h"
#include "testing/simulation.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;

sim::Stage stage_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(sim::Stage::kExecutor); ++i) {
    const auto stage = static_cast<sim::Stage>(i);
    if (name == sim::to_string(stage)) return stage;
  }
  throw nb::value_error(("no such stage: " + name).c_str());
}

nb::dict to_dict(const sim::LiveCounts& counts) {
  nb::dict entry;
  entry["streams"] = counts.streams;
  entry["events"] = counts.events;
  entry["graphs"] = counts.graphs;
  entry["graph_execs"] = counts.graph_execs;
  entry["user_objects"] = counts.user_objects;
  entry["pinned"] = counts.pinned;
  entry["pinned_bytes"] = counts.pinned_bytes;
  entry["device"] = counts.device;
  entry["libraries"] = counts.libraries;
  return entry;
}

// (function, stage, device, thread, result, size_bytes, detail)
nb::list log_of(Simulation& simulation) {
  std::vector<sim::CallRecord> records;
  {
    std::lock_guard<std::mutex> lock(simulation.driver().mutex);
    records = simulation.driver().log.records;
  }
  nb::list entries;
  for (const sim::CallRecord& record : records) {
    entries.append(nb::make_tuple(record.function, sim::to_string(record.stage), record.ordinal,
                                  record.thread, record.result, record.size_bytes, record.detail));
  }
  return entries;
}

template <typename Body>
auto with_lock(Simulation& simulation, Body body) {
  std::lock_guard<std::mutex> lock(simulation.driver().mutex);
  return body(simulation.driver());
}

Simulation* open(int num_devices, uint64_t seed, bool background, int64_t jitter,
                 int64_t steps_per_query, size_t max_pinned_bytes, int arch) {
  sim::Options options;
  options.num_devices = num_devices;
  options.seed = seed;
  options.is_background = background;
  options.max_jitter = jitter;
  options.steps_per_query = steps_per_query;
  options.max_pinned_bytes = max_pinned_bytes;
  options.arch = arch;
  return Simulation::open(options);
}

void inject(Simulation& simulation, const std::string& function, int code, int64_t nth,
            int64_t count, std::optional<std::string> stage, std::optional<int> device) {
  sim::Fault fault;
  fault.function = function;
  fault.code = code;
  fault.nth = nth;
  fault.count = count;
  if (stage) fault.stage = stage_named(*stage);
  fault.ordinal = device;
  with_lock(simulation, [&](sim::SimDriver& driver) { driver.faults.add(fault); });
}

uint64_t begin_foreign_capture(Simulation& simulation, int device, bool is_global) {
  const ContextScope scope(simulation.machine().device(device).context());
  const GraphApi& graphs = sim::SimDriver::graph_table();
  CUstream stream = nullptr;
  check_xla(graphs.stream_create(&stream, sim::kStreamNonBlocking), "cuStreamCreate");
  check_xla(
      graphs.stream_begin_capture(stream, is_global ? sim::kModeGlobal : sim::kModeThreadLocal),
      "cuStreamBeginCapture");
  return sim::to_id(stream);
}

// The code of the end: 0 if nothing disturbed the capture.
int end_foreign_capture(Simulation&, uint64_t stream) {
  const sim::StageScope stage(sim::Stage::kExecutor);
  const GraphApi& graphs = sim::SimDriver::graph_table();
  CUgraph graph = nullptr;
  const int result = graphs.stream_end_capture(sim::to_handle<CUstream>(stream), &graph);
  if (graph != nullptr) graphs.graph_destroy(graph);
  graphs.stream_destroy(sim::to_handle<CUstream>(stream));
  return result;
}

nb::bytes read(Block& block, bool waits) {
  std::vector<std::byte> bytes;
  {
    nb::gil_scoped_release release;
    if (waits) block.device().synchronize();
    bytes = sim::SimDriver::current()->read(block.address(), block.size_bytes());
  }
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void bind_block(nb::module_& m) {
  nb::class_<Block>(m, "Buffer")
      .def_prop_ro("address", &Block::address)
      .def_prop_ro("size_bytes", &Block::size_bytes)
      .def_prop_ro("device", [](Block& block) { return block.device().ordinal(); })
      // In stream order.
      .def(
          "write",
          [](Block& block, nb::bytes bytes) {
            block.device().write(block, bytes.c_str(), bytes.size());
          },
          nb::arg("bytes"))
      // At once, whatever is queued.
      .def(
          "poke",
          [](Block& block, nb::bytes bytes) {
            sim::SimDriver::current()->write(block.address(), bytes.c_str(), bytes.size());
          },
          nb::arg("bytes"))
      .def("read", [](Block& block) { return read(block, /*waits=*/true); })
      .def("peek", [](Block& block) { return read(block, /*waits=*/false); });
}

}  // namespace

void bind_simulation(nb::module_& m) {
  bind_block(m);
  nb::class_<Simulation>(m, "Simulation")
      .def("close", [](Simulation& self) { return to_dict(self.close()); })
      .def(
          "advance", [](Simulation& self, int64_t steps) { return self.driver().advance(steps); },
          nb::arg("steps"), Release())
      .def(
          "drain", [](Simulation& self) { return self.driver().drain(); }, Release())
      .def(
          "close_gate",
          [](Simulation& self, int device) {
            self.driver().close_gate(self.machine().device(device).stream());
          },
          nb::arg("device") = 0)
      .def("open_gates", [](Simulation& self) { self.driver().open_gates(); })
      .def(
          "synchronize",
          [](Simulation& self, int device) { self.machine().device(device).synchronize(); },
          nb::arg("device") = 0, Release())
      // A capture of another library's, on a stream of its own; ended by the thread that began it.
      .def(
          "begin_foreign_capture",
          [](Simulation& self, int device, bool is_global) {
            return begin_foreign_capture(self, device, is_global);
          },
          nb::arg("device") = 0, nb::arg("is_global") = true)
      .def("end_foreign_capture", &end_foreign_capture, nb::arg("stream"))
      .def(
          "buffer",
          [](Simulation& self, int device, size_t size_bytes) {
            return self.machine().device(device).allocate(size_bytes);
          },
          nb::arg("device"), nb::arg("size_bytes"))
      .def(
          "num_live_buffers",
          [](Simulation& self, int device) {
            return self.machine().device(device).num_live_blocks();
          },
          nb::arg("device") = 0)
      .def(
          "evict_all", [](Simulation& self) { self.machine().evict_all(); }, Release())
      .def("inject", &inject, nb::arg("function"), nb::arg("code"), nb::kw_only(),
           nb::arg("nth") = 1, nb::arg("count") = 1, nb::arg("stage") = nb::none(),
           nb::arg("device") = nb::none())
      .def(
          "pause",
          [](Simulation& self, const std::string& function, std::optional<std::string> stage) {
            self.driver().pause(function,
                                stage ? std::optional(stage_named(*stage)) : std::nullopt);
          },
          nb::arg("function"), nb::arg("stage") = nb::none())
      .def(
          "wait_until_paused",
          [](Simulation& self, double timeout_s) {
            return self.driver().wait_until_paused(timeout_s);
          },
          nb::arg("timeout_s") = 10.0, Release())
      .def("resume", [](Simulation& self) { self.driver().resume(); })
      .def("clear_faults",
           [](Simulation& self) {
             with_lock(self, [](sim::SimDriver& driver) { driver.faults.clear(); });
           })
      .def("num_faults",
           [](Simulation& self) {
             return with_lock(self,
                              [](sim::SimDriver& driver) { return driver.faults.num_failed(); });
           })
      .def(
          "lose_device",
          [](Simulation& self, int device, int code) { self.driver().lose_device(device, code); },
          nb::arg("device"), nb::arg("code") = sim::kLaunchFailed)
      .def("deinitialize", [](Simulation& self) { self.driver().deinitialize(); })
      .def("log", &log_of)
      .def("clear_log",
           [](Simulation& self) {
             with_lock(self, [](sim::SimDriver& driver) { driver.log.records.clear(); });
           })
      .def(
          "set_log",
          [](Simulation& self, bool is_on) {
            with_lock(self, [&](sim::SimDriver& driver) { driver.log.is_on = is_on; });
          },
          nb::arg("is_on"))
      .def(
          "num_calls",
          [](Simulation& self, const std::string& function) {
            return with_lock(self,
                             [&](sim::SimDriver& driver) { return driver.log.count(function); });
          },
          nb::arg("function"))
      .def("violations",
           [](Simulation& self) {
             return with_lock(self, [](sim::SimDriver& driver) { return driver.log.violations; });
           })
      .def("live_counts", [](Simulation& self) { return to_dict(self.driver().live_counts()); })
      .def(
          "device_word",
          [](Simulation& self, int device, const std::string& name) {
            return self.driver().device_word(device, name);
          },
          nb::arg("device"), nb::arg("name"));
  m.def("open", &open, nb::kw_only(), nb::arg("num_devices") = 1, nb::arg("seed") = 0,
        nb::arg("background") = false, nb::arg("jitter") = 0, nb::arg("steps_per_query") = 1,
        nb::arg("max_pinned_bytes") = size_t{1} << 30, nb::arg("arch") = 90,
        nb::rv_policy::reference);
}

}  // namespace graphsafe_gg::testing
