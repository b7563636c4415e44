// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Host time of a handler beyond the CUDA calls it makes: the real handlers over a driver whose
// every call returns at once.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "ffi/boundary.h"
#include "kernels/ticket.h"
#include "nanobind/stl/string.h"
#include "runtime/cuda_api.h"
#include "testing/bindings.h"
#include "testing/ffi_calls.h"
#include "testing/runtime_reset.h"

namespace graphsafe_gg::testing {
namespace {

template <typename Handle>
Handle handle() {
  return reinterpret_cast<Handle>(uintptr_t{0x1000});
}

cuda::Result attribute(int* value, int which, cuda::Device) {
  switch (which) {
    case cuda::kDeviceAttributeComputeCapabilityMajor:
      *value = 9;
      break;
    case cuda::kDeviceAttributeComputeCapabilityMinor:
      *value = 0;
      break;
    case cuda::kDeviceAttributeMultiprocessorCount:
      *value = 132;
      break;
    default:
      *value = 232448;
  }
  return cuda::kSuccess;
}

// Any call that is not set below returns success and leaves its results alone.
template <typename... Args>
cuda::Result succeed(Args...) {
  return cuda::kSuccess;
}

template <typename Function>
struct Succeed;
template <typename... Args>
struct Succeed<cuda::Result (*)(Args...)> {
  static constexpr auto value = &succeed<Args...>;
};

const CudaApi& instant_driver() {
  static const CudaApi api = [] {
    CudaApi table{};
#define GG_SUCCEED(member, symbol, params) table.member = Succeed<decltype(table.member)>::value;
    GG_CUDA_API(GG_SUCCEED)
#undef GG_SUCCEED
    table.device_get_attribute = &attribute;
    table.device_primary_ctx_retain = [](CUcontext* context, cuda::Device) {
      *context = handle<CUcontext>();
      return cuda::kSuccess;
    };
    table.ctx_get_current = [](CUcontext* context) {
      *context = handle<CUcontext>();
      return cuda::kSuccess;
    };
    table.mem_host_alloc = [](void** host, size_t size_bytes, unsigned) {
      *host = std::aligned_alloc(64, (size_bytes + 63) / 64 * 64);
      return cuda::kSuccess;
    };
    table.mem_host_get_device_pointer = [](cuda::DevicePtr* device, void* host, unsigned) {
      *device = reinterpret_cast<cuda::DevicePtr>(host);
      return cuda::kSuccess;
    };
    table.memcpy_dtoh_async = [](void* host, cuda::DevicePtr device, size_t size_bytes, CUstream) {
      std::memcpy(host, reinterpret_cast<const void*>(device), size_bytes);
      return cuda::kSuccess;
    };
    table.library_load_data = [](CUlibrary* library, const void*, int*, void**, unsigned, int*,
                                 void**, unsigned) {
      *library = handle<CUlibrary>();
      return cuda::kSuccess;
    };
    return table;
  }();
  return api;
}

constexpr int64_t kGroups = 128;
constexpr int64_t kRows = 512;

std::vector<int32_t> group_sizes() { return std::vector<int32_t>(kGroups, kRows / kGroups); }

// What the publish kernel writes.
std::vector<uint32_t> ticket_of(const std::vector<int32_t>& sizes) {
  const auto bytes = static_cast<int64_t>(sizes.size() * sizeof(int32_t));
  std::vector<uint32_t> ticket(static_cast<size_t>(ticket_bytes(bytes) / kTicketWordBytes));
  TicketHeader header{1, ticket_checksum_term(1, -1), static_cast<uint64_t>(bytes), 0};
  uint32_t* payload = ticket.data() + sizeof(header) / sizeof(uint32_t);
  std::memcpy(payload, sizes.data(), static_cast<size_t>(bytes));
  for (int64_t i = 0; i < ticket_payload_words(bytes); ++i) {
    header.checksum += ticket_checksum_term(payload[i], i);
  }
  std::memcpy(ticket.data(), &header, sizeof(header));
  return ticket;
}

struct Call {
  std::vector<BufferArg> args;
  std::vector<BufferArg> results;
  std::vector<Attribute> attributes;
};

double seconds_of(XLA_FFI_Handler* handler, const Call& call, int repeats) {
  const Context context{true, handle<CUstream>(), 0, 1};
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    call_handler(handler, XLA_FFI_ExecutionStage_EXECUTE, context, call.args, call.results,
                 call.attributes);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

XLA_FFI_Error* do_nothing(XLA_FFI_CallFrame*) { return nullptr; }

// Microseconds a call of the execute handler, the call frame's own making taken off; the best of
// several rounds. g = 128, m = 512, bfloat16.
double time_handler(const std::string& mode, int repeats) {
  drop_device_states();
  drop_kernel_libraries();
  set_cuda_api_for_testing(&instant_driver());
  static std::vector<int32_t> sizes = group_sizes();
  static std::vector<uint32_t> ticket = ticket_of(sizes);
  static char operand[64];
  const BufferArg sizes_arg{XLA_FFI_DataType_S32, {kGroups}, sizes.data()};
  const BufferArg ticket_arg{
      XLA_FFI_DataType_U32, {static_cast<int64_t>(ticket.size())}, ticket.data()};
  Call copy{{sizes_arg}, {ticket_arg}, {}};
  const Target copy_target = find_target("graphsafe_gg_group_sizes_copy_v1");
  const Context context{true, handle<CUstream>(), 0, 1};
  const auto initialize = [&](const Target& target, const Call& call) {
    call_handler(target.initialize, XLA_FFI_ExecutionStage_INITIALIZE, context, call.args,
                 call.results, call.attributes);
  };
  Target target = copy_target;
  Call call = copy;
  if (mode != "copy") {
    target = find_target("graphsafe_gg_grouped_gemm_" + mode + "_v2");
    call.args = {{XLA_FFI_DataType_BF16, {kRows, 2048}, operand},
                 {XLA_FFI_DataType_BF16, {kGroups, 2048, 1536}, operand},
                 sizes_arg};
    if (mode == "async") call.args.push_back(ticket_arg);
    call.results = {{XLA_FFI_DataType_BF16, {kRows, 1536}, operand}};
    call.attributes = {
        {"fallback", XLA_FFI_DataType_S64, 0, ""},
        {"group_offset", XLA_FFI_DataType_S64, -1, ""},
        {"layer", XLA_FFI_DataType_S64, -1, ""},
        {"operands", XLA_FFI_DataType_S64, mode == "async" ? int64_t{kTicketOperand} : 0, ""},
        {"site", XLA_FFI_DataType_S64, 7, ""},
        {"transpose_rhs", XLA_FFI_DataType_PRED, 0, ""}};
  }
  initialize(copy_target, copy);
  seconds_of(copy_target.execute, copy, 1);
  initialize(target, call);
  double with_frame = 1e9;
  double frame = 1e9;
  for (int round = 0; round < 7; ++round) {
    frame = std::min(frame, seconds_of(&do_nothing, call, repeats));
    with_frame = std::min(with_frame, seconds_of(target.execute, call, repeats));
  }
  drop_device_states();
  drop_kernel_libraries();
  set_cuda_api_for_testing(nullptr);
  return (with_frame - frame) / repeats * 1e6;
}

}  // namespace

void bind_handler_time(nanobind::module_& m) {
  m.def("time_handler", &time_handler, nanobind::arg("mode"), nanobind::arg("repeats") = 20000);
}

}  // namespace graphsafe_gg::testing
