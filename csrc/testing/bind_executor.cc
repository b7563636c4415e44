// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Python's view of programs and executables.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "testing/bindings.h"
#include "testing/simulation.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

// Builds a program; loops nest.
class ProgramBuilder {
 public:
  size_t buffer(Storage storage, const std::string& dtype, const std::vector<int64_t>& dims,
                size_t base) {
    return program_.add(storage, dtype_named(dtype), dims, base);
  }
  void add(Thunk thunk) { open().push_back(std::move(thunk)); }
  void begin_loop(int64_t num_iterations, bool blocks_host) {
    Thunk loop{Thunk::Kind::kLoop, "loop", {}, {}, {}, {}, false, num_iterations, blocks_host, {}};
    loops_.push_back(std::move(loop));
  }
  void end_loop() {
    Thunk loop = std::move(loops_.back());
    loops_.pop_back();
    add(std::move(loop));
  }
  const Program& program() const { return program_; }

 private:
  std::vector<Thunk>& open() { return loops_.empty() ? program_.thunks : loops_.back().body; }

  Program program_;
  std::vector<Thunk> loops_;
};

Attribute to_attribute(const std::string& name, nb::handle value) {
  if (nb::isinstance<nb::bool_>(value)) {
    return {name, XLA_FFI_DataType_PRED, nb::cast<bool>(value) ? 1 : 0, ""};
  }
  if (nb::isinstance<nb::int_>(value)) {
    return {name, XLA_FFI_DataType_S64, nb::cast<int64_t>(value), ""};
  }
  return {name, XLA_FFI_DataType_INVALID, 0, nb::cast<std::string>(value)};
}

void add_call(ProgramBuilder& builder, const std::string& target,
              const std::vector<size_t>& operands, const std::vector<size_t>& results,
              nb::dict attributes) {
  Thunk thunk{Thunk::Kind::kCall, target, operands, results, {}, {}, false, 0, false, {}};
  for (const auto& [name, value] : attributes) {
    thunk.attributes.push_back(to_attribute(nb::cast<std::string>(name), value));
  }
  builder.add(std::move(thunk));
}

std::unique_ptr<Executable> compile(Simulation& simulation, const ProgramBuilder& builder,
                                    bool command_buffers, size_t min_graph_size,
                                    size_t trace_cache_size, bool warms_up, bool initializes_twice,
                                    bool poisons, const std::string& context) {
  ExecutableOptions options;
  options.has_command_buffers = command_buffers;
  options.min_graph_size = min_graph_size;
  options.trace_cache_size = trace_cache_size;
  options.warms_up = warms_up;
  options.initializes_twice = initializes_twice;
  options.poisons_results = poisons;
  options.context = context == "none"    ? CurrentContext::kNone
                    : context == "other" ? CurrentContext::kOther
                                         : CurrentContext::kOwn;
  return std::make_unique<Executable>(simulation.machine(), builder.program(), options);
}

nb::dict to_dict(const ExecutableCounters& counters) {
  nb::dict entry;
  entry["runs"] = counters.runs.load();
  entry["eager_calls"] = counters.eager_calls.load();
  entry["captured_calls"] = counters.captured_calls.load();
  entry["captures"] = counters.commands.captures.load();
  entry["graph_launches"] = counters.commands.graph_launches.load();
  entry["updates"] = counters.commands.updates.load();
  return entry;
}

void bind_program(nb::module_& m) {
  using Shape = std::vector<int64_t>;
  nb::class_<ProgramBuilder>(m, "Program")
      .def(nb::init<>())
      .def(
          "param",
          [](ProgramBuilder& self, const std::string& dtype, const Shape& dims) {
            return self.buffer(Storage::kParam, dtype, dims, 0);
          },
          nb::arg("dtype"), nb::arg("dims"))
      .def(
          "result",
          [](ProgramBuilder& self, const std::string& dtype, const Shape& dims,
             std::optional<size_t> donated) {
            return self.buffer(Storage::kResult, dtype, dims, donated ? *donated + 1 : 0);
          },
          nb::arg("dtype"), nb::arg("dims"), nb::arg("donated") = nb::none())
      .def(
          "temp",
          [](ProgramBuilder& self, const std::string& dtype, const Shape& dims) {
            return self.buffer(Storage::kTemp, dtype, dims, 0);
          },
          nb::arg("dtype"), nb::arg("dims"))
      // Part number <iteration> of the base.
      .def(
          "slice",
          [](ProgramBuilder& self, size_t base, const std::string& dtype, const Shape& dims) {
            return self.buffer(Storage::kSlice, dtype, dims, base);
          },
          nb::arg("base"), nb::arg("dtype"), nb::arg("dims"))
      .def("call", &add_call, nb::arg("target"), nb::arg("operands"), nb::arg("results"),
           nb::arg("attributes") = nb::dict())
      .def(
          "kernel",
          [](ProgramBuilder& self, const std::string& symbol, const std::vector<size_t>& buffers,
             const std::vector<int64_t>& scalars, bool capturable) {
            self.add(
                {Thunk::Kind::kKernel, symbol, buffers, {}, {}, scalars, capturable, 0, false, {}});
          },
          nb::arg("symbol"), nb::arg("buffers"), nb::arg("scalars"), nb::arg("capturable") = true)
      .def(
          "copy",
          [](ProgramBuilder& self, size_t from, size_t to, bool capturable) {
            self.add({Thunk::Kind::kCopy, "copy", {from}, {to}, {}, {}, capturable, 0, false, {}});
          },
          nb::arg("source"), nb::arg("target"), nb::arg("capturable") = true)
      .def("begin_loop", &ProgramBuilder::begin_loop, nb::arg("num_iterations"),
           nb::arg("blocks_host") = false)
      .def("end_loop", &ProgramBuilder::end_loop);
}

}  // namespace

void bind_executor(nb::module_& m) {
  nb::exception<ExecutionError>(m, "ExecutionError", PyExc_RuntimeError);
  bind_program(m);
  nb::class_<Executable>(m, "Executable")
      .def("run", &Executable::run, nb::arg("device"), nb::arg("params"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("evict", &Executable::evict)
      .def("counters", [](Executable& self) { return to_dict(self.counters()); })
      .def("node_types", &Executable::node_types, nb::arg("device") = 0);
  m.def("compile", &compile, nb::arg("simulation"), nb::arg("program"), nb::kw_only(),
        nb::arg("command_buffers") = true, nb::arg("min_graph_size") = 1,
        nb::arg("trace_cache_size") = 16, nb::arg("warms_up") = true,
        nb::arg("initializes_twice") = false, nb::arg("poisons") = true,
        nb::arg("context") = "own");
  m.def(
      "is_capturable", [](const std::string& target) { return find_target(target).is_capturable; },
      nb::arg("target"));
}

}  // namespace graphsafe_gg::testing
