// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Device mode on CUDA. Execute is captured into graphs: it launches and returns, and nothing in it
// depends on what buffers hold.
#include <atomic>

#include "ffi/handlers.h"
#include "runtime/group_sizes.h"
#include "runtime/launch.h"

namespace graphsafe_gg {
namespace {

std::atomic<OnBadSizes> g_on_bad_sizes{OnBadSizes::kLog};

void initialize(int ordinal, const Problem& problem, uint64_t site) {
  DeviceState& device = DeviceState::initialize(ordinal);
  device.counters().executions.fetch_add(1, std::memory_order_relaxed);
  load_kernels(device, problem, /*has_known_sizes=*/false);
  // Reserves the site's record, and under replay this is the only host code that sees it.
  const auto error = device.size_errors().peek(site);
  if (!error) return;
  const OnBadSizes policy = g_on_bad_sizes.load(std::memory_order_relaxed);
  if (policy == OnBadSizes::kRaise) {
    device.size_errors().take(site);
    throw InvalidArgument(describe_size_error(*error, site));
  }
  if (policy == OnBadSizes::kLog && device.size_errors().should_log(site)) {
    report_once(describe_size_error(*error, site));
  }
}

}  // namespace

void set_on_bad_sizes(OnBadSizes policy) {
  g_on_bad_sizes.store(policy, std::memory_order_relaxed);
}

ffi::Error grouped_gemm_device_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs,
                                          ffi::AnyBuffer group_sizes, Result out,
                                          bool transpose_rhs, int64_t site) {
  return fence([&] {
    initialize(ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs),
               static_cast<uint64_t>(site));
  });
}

ffi::Error grouped_gemm_device_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                                       ffi::AnyBuffer rhs, ffi::AnyBuffer group_sizes, Result out,
                                       bool transpose_rhs, int64_t site) {
  return fence([&] {
    launch(DeviceState::get(ordinal),
           grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs),
           {lhs.untyped_data(), rhs.untyped_data(), group_sizes.untyped_data(),
            out->untyped_data()},
           static_cast<uint64_t>(site), /*max_group_rows=*/-1, stream);
  });
}

ffi::Error drhs_device_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer dout,
                                  ffi::AnyBuffer group_sizes, Result out, int64_t site) {
  return fence([&] {
    initialize(ordinal, drhs_problem(lhs, dout, group_sizes, *out), static_cast<uint64_t>(site));
  });
}

ffi::Error drhs_device_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                               ffi::AnyBuffer dout, ffi::AnyBuffer group_sizes, Result out,
                               int64_t site) {
  return fence([&] {
    launch(DeviceState::get(ordinal), drhs_problem(lhs, dout, group_sizes, *out),
           {lhs.untyped_data(), dout.untyped_data(), group_sizes.untyped_data(),
            out->untyped_data()},
           static_cast<uint64_t>(site), /*max_group_rows=*/-1, stream);
  });
}

}  // namespace graphsafe_gg
