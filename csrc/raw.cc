// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "raw.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/ticket.h"
#include "runtime/context_guard.h"
#include "runtime/early_copy.h"
#include "runtime/errors.h"
#include "runtime/launch.h"

namespace nb = nanobind;

namespace graphsafe_gg {
namespace {

DType dtype_by_name(const std::string& name) {
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  if (name == "float32") return DType::kF32;
  throw InvalidArgument("raw: dtype must be bfloat16, float16 or float32; got " + name + ".");
}

IndexType index_type_by_name(const std::string& name) {
  if (name == "int8") return IndexType::kS8;
  if (name == "uint8") return IndexType::kU8;
  if (name == "int16") return IndexType::kS16;
  if (name == "uint16") return IndexType::kU16;
  if (name == "int32") return IndexType::kS32;
  if (name == "uint32") return IndexType::kU32;
  if (name == "int64") return IndexType::kS64;
  if (name == "uint64") return IndexType::kU64;
  throw InvalidArgument("raw: group_sizes must have an integer dtype; got " + name + ".");
}

Problem make_problem(bool is_drhs, const std::string& dtype, const std::string& out_dtype,
                     const std::string& size_dtype, bool transpose_rhs, bool has_bias,
                     int64_t num_layers, int64_t num_sizes, int64_t num_groups, int64_t m,
                     int64_t k, int64_t n) {
  Problem problem{};
  problem.product = is_drhs ? Product::kKGrouped : Product::kMGrouped;
  problem.dtype = dtype_by_name(dtype);
  problem.out_dtype = dtype_by_name(out_dtype);
  problem.size_type = index_type_by_name(size_dtype);
  problem.transpose_rhs = transpose_rhs;
  problem.has_bias = has_bias;
  problem.num_layers = num_layers;
  problem.num_sizes = num_sizes;
  problem.num_groups = num_groups;
  problem.m = m;
  problem.k = k;
  problem.n = n;
  return problem;
}

// (address or 0, value where there is no address, dtype of what is at the address).
using Index = std::tuple<uintptr_t, int64_t, std::string>;

IndexOperand index_operand(const Index& index) {
  const auto& [address, value, dtype] = index;
  IndexOperand operand{};
  operand.address = reinterpret_cast<const void*>(address);
  operand.value = value;
  operand.type = static_cast<uint8_t>(index_type_by_name(dtype));
  return operand;
}

// What the initialize stage of a handler does: everything that a capture forbids.
void raw_initialize(int device, const Problem& problem, const std::string& config, uint64_t site) {
  nb::gil_scoped_release release;
  DeviceState& state = DeviceState::initialize(device);
  load_kernels(state, problem, /*has_known_sizes=*/false);
  if (!config.empty()) load_kernel(state, problem, config_by_symbol(state, problem, config));
  static_cast<void>(state.sites().at(site));
}

std::vector<std::string> raw_configs(int device, const Problem& problem) {
  nb::gil_scoped_release release;
  std::vector<std::string> symbols;
  for (const Config& config :
       candidate_configs(problem, DeviceState::initialize(device).traits())) {
    if (const Kernel* kernel = find_kernel(problem, config)) symbols.emplace_back(kernel->symbol);
  }
  return symbols;
}

void raw_launch(int device, const Problem& problem, uintptr_t lhs, uintptr_t rhs,
                uintptr_t group_sizes, uintptr_t out, uintptr_t bias, const Index& group_offset,
                const Index& layer, const std::string& config, bool starts_early, uint64_t site,
                uintptr_t stream) {
  nb::gil_scoped_release release;
  const Operands operands{reinterpret_cast<const void*>(lhs),
                          reinterpret_cast<const void*>(rhs),
                          reinterpret_cast<const void*>(group_sizes),
                          reinterpret_cast<void*>(out),
                          reinterpret_cast<const void*>(bias),
                          index_operand(group_offset),
                          index_operand(layer)};
  DeviceState& state = DeviceState::get(device);
  const Config chosen = config.empty() ? choose_config(problem, state.traits(), -1)
                                       : config_by_symbol(state, problem, config);
  launch(state, problem, chosen, operands, state.sites().at(site),
         reinterpret_cast<CUstream>(stream), /*guard=*/{},
         starts_early ? LaunchOrder::kEarly : LaunchOrder::kAfter);
}

// A slot that Python holds. Graphs may hold it longer: its memory stays with the device's state.
class RawSlot {
 public:
  RawSlot(int device, const std::string& size_dtype, int64_t num_groups)
      : device_(DeviceState::initialize(device)),
        sizes_{nullptr, index_type_by_name(size_dtype), num_groups} {
    prepare_publish(device_);
    const ContextGuard guard(cuda_api(), device_.context(), device_.ordinal());
    slot_ = &device_.slots().acquire(static_cast<size_t>(ticket_bytes(sizes_.payload_bytes())));
  }
  ~RawSlot() { device_.slots().release(*slot_); }
  RawSlot(const RawSlot&) = delete;
  RawSlot& operator=(const RawSlot&) = delete;

  void copy(uintptr_t group_sizes, uintptr_t stream) {
    GroupSizesView sizes = sizes_;
    sizes.data = reinterpret_cast<const void*>(group_sizes);
    issue_copy_to_slot(device_, sizes, *slot_, reinterpret_cast<CUstream>(stream));
  }
  bool is_done() const {
    const ContextGuard guard(cuda_api(), device_.context(), device_.ordinal());
    const RelaxedCaptureMode relaxed(cuda_api());
    return slot_->event.is_done();
  }
  std::vector<int64_t> wait(uint64_t site) const {
    return wait_for_slot(device_, sizes_, *slot_, device_.sites().at(site));
  }

 private:
  DeviceState& device_;
  const GroupSizesView sizes_;
  Slot* slot_ = nullptr;
};

// (address, shape, strides in elements, (type code, bits), (device type, device id)) of an object
// with __dlpack__. The address is the caller's to keep alive.
nb::tuple raw_dlpack(nb::ndarray<nb::ro> array) {
  nb::list shape;
  nb::list strides;
  for (size_t i = 0; i < array.ndim(); ++i) {
    shape.append(array.shape(i));
    strides.append(array.stride(i));
  }
  return nb::make_tuple(
      reinterpret_cast<uintptr_t>(array.data()), nb::tuple(shape), nb::tuple(strides),
      nb::make_tuple(static_cast<int>(array.dtype().code), static_cast<int>(array.dtype().bits)),
      nb::make_tuple(array.device_type(), array.device_id()));
}

// DriverError stays a RuntimeError, nanobind's own translation.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const InvalidArgument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const Unimplemented& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what());
  } catch (const OutOfMemory& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  }
}

}  // namespace

void bind_raw(nb::module_& m) {
  nb::register_exception_translator(&translate);
  nb::class_<Problem>(m, "RawProblem").def("__repr__", [](const Problem& problem) {
    return to_string(problem);
  });
  m.def("raw_problem", &make_problem, nb::kw_only(), nb::arg("is_drhs"), nb::arg("dtype"),
        nb::arg("out_dtype"), nb::arg("size_dtype"), nb::arg("transpose_rhs"), nb::arg("has_bias"),
        nb::arg("num_layers"), nb::arg("num_sizes"), nb::arg("num_groups"), nb::arg("m"),
        nb::arg("k"), nb::arg("n"));
  m.def("raw_initialize", &raw_initialize, nb::arg("device"), nb::arg("problem"), nb::arg("config"),
        nb::arg("site"));
  m.def("raw_configs", &raw_configs, nb::arg("device"), nb::arg("problem"));
  m.def("raw_launch", &raw_launch, nb::arg("device"), nb::arg("problem"), nb::arg("lhs"),
        nb::arg("rhs"), nb::arg("group_sizes"), nb::arg("out"), nb::arg("bias"),
        nb::arg("group_offset"), nb::arg("layer"), nb::arg("config"), nb::arg("starts_early"),
        nb::arg("site"), nb::arg("stream"));
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<RawSlot>(m, "RawSlot")
      .def(nb::init<int, const std::string&, int64_t>(), nb::arg("device"), nb::arg("size_dtype"),
           nb::arg("num_groups"), Release())
      .def("copy", &RawSlot::copy, nb::arg("group_sizes"), nb::arg("stream"), Release())
      .def("is_done", &RawSlot::is_done, Release())
      .def("wait", &RawSlot::wait, nb::arg("site"), Release());
  m.def("raw_dlpack", &raw_dlpack, nb::arg("array").noconvert());
}

}  // namespace graphsafe_gg
