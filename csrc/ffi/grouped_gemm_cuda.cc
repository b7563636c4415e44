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

void initialize(int ordinal, const ProductCall& call) {
  DeviceState& device = DeviceState::initialize(ordinal);
  Site& site = device.sites().at(call.site());
  site.executions.fetch_add(1, std::memory_order_relaxed);
  load_kernels(device, call.problem, /*has_known_sizes=*/false);
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

void execute(int ordinal, const ProductCall& call, CUstream stream) {
  DeviceState& device = DeviceState::get(ordinal);
  Site& site = device.sites().at(call.site());
  launch(device, call.problem, call.operands, site, /*max_group_rows=*/-1, stream);
  int status = 0;
  check(cuda_api().stream_is_capturing(stream, &status), "cuStreamIsCapturing", ordinal);
  auto& calls = status == cuda::kStreamCaptureStatusActive ? site.captured_calls : site.eager_calls;
  calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void set_on_bad_sizes(OnBadSizes policy) {
  g_on_bad_sizes.store(policy, std::memory_order_relaxed);
}

ffi::Error grouped_gemm_device_initialize(int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    initialize(ordinal, grouped_gemm_call(lhs, second, group_sizes, rest, *out, attributes));
  });
}

ffi::Error grouped_gemm_device_execute(Stream stream, int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    execute(ordinal, grouped_gemm_call(lhs, second, group_sizes, rest, *out, attributes), stream);
  });
}

ffi::Error drhs_device_initialize(int32_t ordinal, GG_OPERANDS) {
  return fence(
      [&] { initialize(ordinal, drhs_call(lhs, second, group_sizes, rest, *out, attributes)); });
}

ffi::Error drhs_device_execute(Stream stream, int32_t ordinal, GG_OPERANDS) {
  return fence([&] {
    execute(ordinal, drhs_call(lhs, second, group_sizes, rest, *out, attributes), stream);
  });
}

}  // namespace graphsafe_gg
