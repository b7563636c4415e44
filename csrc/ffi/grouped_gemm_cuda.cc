// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Device mode on CUDA. Execute is captured into graphs: it launches and returns, and nothing in it
// depends on what buffers hold.
#include <atomic>

#include "ffi/handlers.h"
#include "runtime/check.h"
#include "runtime/group_sizes.h"
#include "runtime/launch.h"

namespace graphsafe_gg {
namespace {

std::atomic<OnBadSizes> g_on_bad_sizes{OnBadSizes::kLog};

void initialize(int ordinal, const Problem& problem, int64_t site_id) {
  DeviceState& device = DeviceState::initialize(ordinal);
  Site& site = device.sites().at(static_cast<uint64_t>(site_id));
  site.executions.fetch_add(1, std::memory_order_relaxed);
  load_kernels(device, problem, /*has_known_sizes=*/false);
  // Under replay this is the only host code that sees what a kernel recorded.
  const auto error = site.error();
  if (!error) return;
  const OnBadSizes policy = g_on_bad_sizes.load(std::memory_order_relaxed);
  if (policy == OnBadSizes::kRaise) {
    site.clear_error();
    throw InvalidArgument(describe_size_error(*error, site.id));
  }
  if (policy == OnBadSizes::kLog && !site.has_logged.exchange(true)) {
    report_once(describe_size_error(*error, site.id));
  }
}

void execute(int ordinal, const Problem& problem, const Operands& operands, int64_t site_id,
             CUstream stream) {
  DeviceState& device = DeviceState::get(ordinal);
  Site& site = device.sites().at(static_cast<uint64_t>(site_id));
  launch(device, problem, operands, site, /*max_group_rows=*/-1, stream);
  int status = 0;
  check(cuda_api().stream_is_capturing(stream, &status), "cuStreamIsCapturing", ordinal);
  auto& calls = status == cuda::kStreamCaptureStatusActive ? site.captured_calls : site.eager_calls;
  calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void set_on_bad_sizes(OnBadSizes policy) {
  g_on_bad_sizes.store(policy, std::memory_order_relaxed);
}

ffi::Error grouped_gemm_device_initialize(int32_t ordinal, Buffer lhs, Buffer rhs,
                                          Buffer group_sizes, Result out, bool transpose_rhs,
                                          int64_t site) {
  return fence([&] {
    initialize(ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs), site);
  });
}

ffi::Error grouped_gemm_device_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer rhs,
                                       Buffer group_sizes, Result out, bool transpose_rhs,
                                       int64_t site) {
  return fence([&] {
    execute(
        ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs),
        {lhs.untyped_data(), rhs.untyped_data(), group_sizes.untyped_data(), out->untyped_data()},
        site, stream);
  });
}

ffi::Error drhs_device_initialize(int32_t ordinal, Buffer lhs, Buffer dout, Buffer group_sizes,
                                  Result out, int64_t site) {
  return fence([&] { initialize(ordinal, drhs_problem(lhs, dout, group_sizes, *out), site); });
}

ffi::Error drhs_device_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer dout,
                               Buffer group_sizes, Result out, int64_t site) {
  return fence([&] {
    execute(
        ordinal, drhs_problem(lhs, dout, group_sizes, *out),
        {lhs.untyped_data(), dout.untyped_data(), group_sizes.untyped_data(), out->untyped_data()},
        site, stream);
  });
}

}  // namespace graphsafe_gg
