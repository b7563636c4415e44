// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Kernels on the emulated device, with their operands as bytes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>

#include "kernels/config.h"
#include "runtime/tensor_maps.h"
#include "testing/bindings.h"
#include "testing/emulation/grid.h"
#include "testing/emulation/programs.h"
#include "testing/emulation/publish_kernel.h"
#include "testing/emulation/scheduler.h"
#include "testing/emulations.h"
#include "testing/simulation.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

using emulation::Buffer;
using emulation::EmulatedKernel;

constexpr const char* kDTypes[] = {"bfloat16", "float16", "float32"};
constexpr const char* kIndexTypes[] = {"int8",  "uint8",  "int16", "uint16",
                                       "int32", "uint32", "int64", "uint64"};

template <size_t kCount>
uint8_t index_of(const char* const (&names)[kCount], const std::string& name) {
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) throw nb::value_error(("no such type: " + name).c_str());
  return static_cast<uint8_t>(found - std::begin(names));
}

const EmulatedKernel& kernel_named(const std::string& symbol) {
  for (const EmulatedKernel& kernel : emulation::emulated_kernels()) {
    if (kernel.symbol == symbol) return kernel;
  }
  throw nb::value_error(("no emulated kernel is called " + symbol).c_str());
}

// An operand in guarded memory, as the kernel may read it.
const void* hold(emulation::Memory& memory, const char* name, const nb::bytes& bytes,
                 size_t misalignment) {
  Buffer& buffer = memory.add(name, bytes.size(), misalignment);
  std::copy_n(static_cast<const char*>(bytes.data()), bytes.size(), buffer.data());
  buffer.forbid_writes();
  return buffer.data();
}

Config config_of(const EmulatedKernel& kernel, const Problem& problem) {
  const TileShape& shape = kernel.shape;
  return {shape.block_m,
          shape.block_n,
          shape.block_k,
          shape.num_stages,
          shape.num_threads,
          shape.blocks_per_sm,
          shape.cluster_size,
          shape.is_transposed,
          smem_bytes(shape, static_cast<int>(size_bytes(problem.dtype)))};
}

nb::list kernel_names() {
  nb::list names;
  for (const EmulatedKernel& kernel : emulation::emulated_kernels()) names.append(kernel.symbol);
  return names;
}

// Runs the kernel and returns the bytes of its result and the error record: (kind, index, value,
// limit). Offset and layer are the kernel's to read, as int32. `misalignment` in bytes.
nb::tuple emulate(Simulation& simulation, const std::string& symbol, const nb::bytes& lhs,
                  const nb::bytes& rhs, const nb::bytes& group_sizes, size_t out_bytes,
                  const std::optional<nb::bytes>& bias, const std::string& size_type,
                  const std::string& out_dtype, int64_t m, int64_t k, int64_t n, int64_t num_sizes,
                  int64_t num_groups, int64_t num_layers, int32_t group_offset, int32_t layer,
                  int num_sms, uint64_t seed, size_t misalignment,
                  std::optional<uint64_t> guard_stamp, bool starts_early) {
  const EmulatedKernel& kernel = kernel_named(symbol);
  constexpr uint64_t kExpectedStamp = 1;
  // By the seed, operands end or begin at a page that cannot be read.
  emulation::Memory memory(/*is_low=*/seed % 2 == 0);
  KernelArgs args{};
  args.lhs = hold(memory, "lhs", lhs, misalignment);
  args.rhs = hold(memory, "rhs", rhs, misalignment);
  args.group_sizes = hold(memory, "group_sizes", group_sizes, 0);
  if (bias) args.bias = hold(memory, "bias", *bias, misalignment);
  const auto hold_index = [&](const char* name, int32_t value) {
    const nb::bytes bytes(&value, sizeof(value));
    return IndexOperand{hold(memory, name, bytes, 0), 0, static_cast<uint8_t>(IndexType::kS32), {}};
  };
  args.group_offset = hold_index("group_offset", group_offset);
  args.layer = hold_index("layer", layer);
  if (guard_stamp) {
    const nb::bytes bytes(&*guard_stamp, sizeof(*guard_stamp));
    args.guard_stamp = static_cast<const uint64_t*>(hold(memory, "stamp", bytes, 0));
    args.expected_stamp = kExpectedStamp;
  }
  SiteRecord record{};
  args.error = &record.error;
  args.guard_trips = &record.guard_trips;
  args.starts_early = starts_early;
  args.num_sizes = num_sizes;
  args.num_groups = num_groups;
  args.num_layers = num_layers;
  args.m = m;
  args.k = k;
  args.n = n;
  args.size_type = index_of(kIndexTypes, size_type);
  args.out_dtype = index_of(kDTypes, out_dtype);

  const Problem problem = sim::problem_of(symbol, args);
  const auto elements = misalignment / static_cast<size_t>(size_bytes(problem.dtype));
  Buffer& out =
      memory.add("out", out_bytes, elements * static_cast<size_t>(size_bytes(problem.out_dtype)));
  args.out = out.data();
  const Config config = config_of(kernel, problem);
  TensorMaps maps{};
  if (config.cluster_size > 0) {
    const ContextScope scope(simulation.machine().device(0).context());
    encode_tensor_maps(problem, config, args.lhs, args.rhs, 0, maps);
  }
  const DeviceTraits device = {90, num_sms, sim::kMaxSmemBlockBytes, sim::kMaxSmemSmBytes};
  const auto num_blocks = static_cast<unsigned>(grid_blocks(problem, config, device));
  {
    nb::gil_scoped_release release;
    emulation::run({kernel, args, maps, num_blocks, static_cast<uint32_t>(config.smem_bytes), seed},
                   memory);
  }
  const SizeErrorRecord& error = record.error;
  return nb::make_tuple(
      nb::bytes(out.data(), out_bytes),
      nb::make_tuple(static_cast<uint32_t>(error.kind), error.index, error.value, error.limit),
      record.guard_trips);
}

}  // namespace

void bind_emulation(nb::module_& m) {
  nb::exception<emulation::EmulationError>(m, "EmulationError");
  m.def("emulated_kernels", &kernel_names);
  m.def(
      "emulate_publish",
      [](const nb::bytes& sizes, size_t misalignment, int ordinal, uint64_t seed) {
        const auto* first = static_cast<const unsigned char*>(sizes.data());
        const auto ticket =
            emulation::publish({first, first + sizes.size()}, misalignment, ordinal, seed);
        return nb::bytes(ticket.data(), ticket.size());
      },
      nb::arg("sizes"), nb::arg("misalignment") = 0, nb::arg("ordinal") = 0, nb::arg("seed") = 0);
  m.def("emulate_program", &emulation::run_program, nb::arg("name"), nb::arg("seed"));
  m.def("emulate", &emulate, nb::arg("simulation"), nb::arg("kernel"), nb::kw_only(),
        nb::arg("lhs"), nb::arg("rhs"), nb::arg("group_sizes"), nb::arg("out_bytes"),
        nb::arg("bias") = nb::none(), nb::arg("size_type") = "int32",
        nb::arg("out_dtype") = "float32", nb::arg("m"), nb::arg("k"), nb::arg("n"),
        nb::arg("num_sizes"), nb::arg("num_groups"), nb::arg("num_layers") = 1,
        nb::arg("group_offset") = 0, nb::arg("layer") = 0, nb::arg("num_sms") = 2,
        nb::arg("seed") = 0, nb::arg("misalignment") = 0, nb::arg("guard_stamp") = nb::none(),
        nb::arg("starts_early") = false);
}

}  // namespace graphsafe_gg::testing
