// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Sync and async mode on CUDA: the host knows the sizes when it launches. The project's kernels
// still compute from the device's sizes; the host's choose the launch and raise errors early.
#include <algorithm>

#include "ffi/handlers.h"
#include "runtime/context_guard.h"
#include "runtime/early_copy.h"
#include "runtime/host_launch.h"

namespace graphsafe_gg {
namespace {

GroupSizesView sizes_of(const ProductCall& call) {
  return {call.operands.group_sizes, call.problem.size_type, call.problem.num_sizes};
}

void check_error(const SizeErrorRecord& error, const ProductCall& call) {
  if (error.kind != kNoSizeError) throw InvalidArgument(describe_size_error(error, call.site()));
}

void initialize(int32_t ordinal, const ProductCall& call) {
  DeviceState& device = DeviceState::initialize(ordinal);
  device.sites().at(call.site()).executions.fetch_add(1);
  prepare_host_launch(device, call.problem);
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  device.size_copies().reserve(static_cast<size_t>(
      std::max<int64_t>(sizes_of(call).payload_bytes(), size_bytes(IndexType::kS64))));
}

// Its value on the host: copied now, and waited for, if only the device has it.
int64_t value_of(DeviceState& device, const IndexOperand& operand, Site& site, CUstream stream) {
  if (operand.address == nullptr) return operand.value;
  const GroupSizesView view{operand.address, static_cast<IndexType>(operand.type), 1};
  return copy_and_wait(device, view, site, stream).front();
}

void check_indices(DeviceState& device, const ProductCall& call, Site& site, CUstream stream) {
  const int64_t offset = value_of(device, call.operands.group_offset, site, stream);
  const int64_t layer = value_of(device, call.operands.layer, site, stream);
  check_error(find_index_error(call.problem, offset, layer), call);
}

void launch_with(DeviceState& device, const ProductCall& call, const HostSizes& host, Site& site,
                 CUstream stream) {
  launch_with_sizes(device, call.problem, call.operands, host, call.ticket, site, stream);
  site.eager_calls.fetch_add(1, std::memory_order_relaxed);
}

void execute_sync(int32_t ordinal, const ProductCall& call, CUstream stream) {
  DeviceState& device = DeviceState::get(ordinal);
  Site& site = device.sites().at(call.site());
  check_indices(device, call, site, stream);
  const HostSizes host{copy_and_wait(device, sizes_of(call), site, stream), 0, Fallback::kNone};
  check_error(find_size_error(host.sizes, call.problem.m), call);
  launch_with(device, call, host, site, stream);
}

void execute_async(int32_t ordinal, const ProductCall& call, CUstream stream) {
  DeviceState& device = DeviceState::get(ordinal);
  Site& site = device.sites().at(call.site());
  if (call.ticket == nullptr) throw InvalidArgument("grouped_gemm: the ticket is missing.");
  if (call.attributes.fallback != 0) site.count(static_cast<Fallback>(call.attributes.fallback));
  if (call.operands.group_offset.address != nullptr || call.operands.layer.address != nullptr) {
    site.count(Fallback::kTracedIndex);
  }
  check_indices(device, call, site, stream);
  HostSizes host = wait_for_ticket(device, sizes_of(call), call.ticket, site, stream);
  if (host.fallback != Fallback::kNone) site.count(host.fallback);
  SizeErrorRecord error = find_size_error(host.sizes, call.problem.m);
  if (error.kind != kNoSizeError && host.stamp != 0) {
    // A good call must not fail for sizes that another one left in the slot.
    site.count(Fallback::kSuspect);
    host.sizes = copy_and_wait(device, sizes_of(call), site, stream);
    host.stamp = 0;
    error = find_size_error(host.sizes, call.problem.m);
  }
  check_error(error, call);
  launch_with(device, call, host, site, stream);
}

}  // namespace

ffi::Error grouped_gemm_host_sizes_initialize(int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    initialize(ordinal, grouped_gemm_call(lhs, second, group_sizes, rest, *out, attributes));
  });
}

ffi::Error grouped_gemm_sync_execute(Stream stream, int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    execute_sync(ordinal, grouped_gemm_call(lhs, second, group_sizes, rest, *out, attributes),
                 stream);
  });
}

ffi::Error grouped_gemm_async_execute(Stream stream, int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    execute_async(ordinal, grouped_gemm_call(lhs, second, group_sizes, rest, *out, attributes),
                  stream);
  });
}

ffi::Error drhs_host_sizes_initialize(int32_t ordinal, GG_OPERANDS) {
  return fence(
      [&] { initialize(ordinal, drhs_call(lhs, second, group_sizes, rest, *out, attributes)); });
}

ffi::Error drhs_sync_execute(Stream stream, int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    execute_sync(ordinal, drhs_call(lhs, second, group_sizes, rest, *out, attributes), stream);
  });
}

ffi::Error drhs_async_execute(Stream stream, int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    execute_async(ordinal, drhs_call(lhs, second, group_sizes, rest, *out, attributes), stream);
  });
}

}  // namespace graphsafe_gg
