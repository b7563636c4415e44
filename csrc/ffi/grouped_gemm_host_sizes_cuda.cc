// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Sync and async mode on CUDA: the host knows the sizes when it launches. The project's kernels
// still compute from the device's sizes; the host's choose the launch and raise errors early.
#include "ffi/handlers.h"
#include "runtime/context_guard.h"
#include "runtime/early_copy.h"
#include "runtime/host_launch.h"

namespace graphsafe_gg {
namespace {

struct Call {
  int32_t ordinal;
  Problem problem;
  Operands operands;
  int64_t site;

  GroupSizesView sizes() const {
    return {operands.group_sizes, problem.size_type, problem.num_groups};
  }
};

void initialize(int32_t ordinal, const Problem& problem, int64_t site) {
  DeviceState& device = DeviceState::initialize(ordinal);
  device.sites().at(static_cast<uint64_t>(site)).executions.fetch_add(1);
  prepare_host_launch(device, problem);
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  device.size_copies().reserve(
      static_cast<size_t>(problem.num_groups * size_bytes(problem.size_type)));
}

void launch_with(DeviceState& device, const Call& call, const HostSizes& host, const void* ticket,
                 Site& site, CUstream stream) {
  launch_with_sizes(device, call.problem, call.operands, host, ticket, site, stream);
  site.eager_calls.fetch_add(1, std::memory_order_relaxed);
}

void execute_sync(const Call& call, CUstream stream) {
  DeviceState& device = DeviceState::get(call.ordinal);
  Site& site = device.sites().at(static_cast<uint64_t>(call.site));
  const HostSizes host{copy_and_wait(device, call.sizes(), site, stream), 0, Fallback::kNone};
  const SizeErrorRecord error = find_size_error(host.sizes, call.problem.m);
  if (error.kind != kNoSizeError) throw InvalidArgument(describe_size_error(error, site.id));
  launch_with(device, call, host, /*ticket=*/nullptr, site, stream);
}

void execute_async(const Call& call, const Buffer& ticket, int64_t fallback, CUstream stream) {
  DeviceState& device = DeviceState::get(call.ordinal);
  Site& site = device.sites().at(static_cast<uint64_t>(call.site));
  if (fallback != 0) site.count(static_cast<Fallback>(fallback));
  HostSizes host = wait_for_ticket(device, call.sizes(), ticket.untyped_data(), site, stream);
  if (host.fallback != Fallback::kNone) site.count(host.fallback);
  SizeErrorRecord error = find_size_error(host.sizes, call.problem.m);
  if (error.kind != kNoSizeError && host.stamp != 0) {
    // A good call must not fail for sizes that another one left in the slot.
    site.count(Fallback::kSuspect);
    host.sizes = copy_and_wait(device, call.sizes(), site, stream);
    host.stamp = 0;
    error = find_size_error(host.sizes, call.problem.m);
  }
  if (error.kind != kNoSizeError) throw InvalidArgument(describe_size_error(error, site.id));
  launch_with(device, call, host, ticket.untyped_data(), site, stream);
}

Operands operands_of(const Buffer& lhs, const Buffer& rhs, const Buffer& group_sizes,
                     const Result& out) {
  Result result = out;
  return {lhs.untyped_data(), rhs.untyped_data(), group_sizes.untyped_data(),
          result->untyped_data()};
}

}  // namespace

ffi::Error grouped_gemm_sync_initialize(int32_t ordinal, Buffer lhs, Buffer rhs, Buffer group_sizes,
                                        Result out, bool transpose_rhs, int64_t site) {
  return fence([&] {
    initialize(ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs), site);
  });
}

ffi::Error grouped_gemm_sync_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer rhs,
                                     Buffer group_sizes, Result out, bool transpose_rhs,
                                     int64_t site) {
  return fence([&] {
    execute_sync({ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs),
                  operands_of(lhs, rhs, group_sizes, out), site},
                 stream);
  });
}

ffi::Error drhs_sync_initialize(int32_t ordinal, Buffer lhs, Buffer dout, Buffer group_sizes,
                                Result out, int64_t site) {
  return fence([&] { initialize(ordinal, drhs_problem(lhs, dout, group_sizes, *out), site); });
}

ffi::Error drhs_sync_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer dout,
                             Buffer group_sizes, Result out, int64_t site) {
  return fence([&] {
    execute_sync({ordinal, drhs_problem(lhs, dout, group_sizes, *out),
                  operands_of(lhs, dout, group_sizes, out), site},
                 stream);
  });
}

ffi::Error grouped_gemm_async_initialize(int32_t ordinal, Buffer lhs, Buffer rhs,
                                         Buffer group_sizes, Buffer /*ticket*/, Result out,
                                         bool transpose_rhs, int64_t site, int64_t /*fallback*/) {
  return grouped_gemm_sync_initialize(ordinal, lhs, rhs, group_sizes, out, transpose_rhs, site);
}

ffi::Error grouped_gemm_async_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer rhs,
                                      Buffer group_sizes, Buffer ticket, Result out,
                                      bool transpose_rhs, int64_t site, int64_t fallback) {
  return fence([&] {
    execute_async({ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs),
                   operands_of(lhs, rhs, group_sizes, out), site},
                  ticket, fallback, stream);
  });
}

ffi::Error drhs_async_initialize(int32_t ordinal, Buffer lhs, Buffer dout, Buffer group_sizes,
                                 Buffer /*ticket*/, Result out, int64_t site,
                                 int64_t /*fallback*/) {
  return drhs_sync_initialize(ordinal, lhs, dout, group_sizes, out, site);
}

ffi::Error drhs_async_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer dout,
                              Buffer group_sizes, Buffer ticket, Result out, int64_t site,
                              int64_t fallback) {
  return fence([&] {
    execute_async({ordinal, drhs_problem(lhs, dout, group_sizes, *out),
                   operands_of(lhs, dout, group_sizes, out), site},
                  ticket, fallback, stream);
  });
}

}  // namespace graphsafe_gg
