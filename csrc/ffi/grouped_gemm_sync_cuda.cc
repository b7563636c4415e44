// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Sync mode on CUDA: the baseline that copies the sizes at the call and waits for them.
#include <algorithm>

#include "ffi/handlers.h"
#include "runtime/group_sizes.h"
#include "runtime/launch.h"

namespace graphsafe_gg {
namespace {

void initialize(int ordinal, const Problem& problem) {
  DeviceState& device = DeviceState::initialize(ordinal);
  device.counters().executions.fetch_add(1, std::memory_order_relaxed);
  load_kernels(device, problem, /*has_known_sizes=*/true);
  device.size_copies().reserve(
      static_cast<size_t>(problem.num_groups * size_bytes(problem.size_type)));
}

// Bad sizes raise before any launch. The kernel still computes from the device's sizes; the host's
// choose its tiles.
void execute(int ordinal, const Problem& problem, const Operands& operands, uint64_t site,
             CUstream stream) {
  DeviceState& device = DeviceState::get(ordinal);
  const auto sizes = wait_for_group_sizes(device, problem, operands.group_sizes, stream);
  const SizeErrorRecord error = find_size_error(sizes, problem.m);
  if (error.kind != kNoSizeError) throw InvalidArgument(describe_size_error(error, site));
  const auto largest = std::max_element(sizes.begin(), sizes.end());
  launch(device, problem, operands, site, largest == sizes.end() ? 0 : *largest, stream);
}

}  // namespace

ffi::Error grouped_gemm_sync_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs,
                                        ffi::AnyBuffer group_sizes, Result out,
                                        bool transpose_rhs, int64_t /*site*/) {
  return fence([&] {
    initialize(ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs));
  });
}

ffi::Error grouped_gemm_sync_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                                     ffi::AnyBuffer rhs, ffi::AnyBuffer group_sizes, Result out,
                                     bool transpose_rhs, int64_t site) {
  return fence([&] {
    execute(ordinal, grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs),
            {lhs.untyped_data(), rhs.untyped_data(), group_sizes.untyped_data(),
             out->untyped_data()},
            static_cast<uint64_t>(site), stream);
  });
}

ffi::Error drhs_sync_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer dout,
                                ffi::AnyBuffer group_sizes, Result out, int64_t /*site*/) {
  return fence([&] { initialize(ordinal, drhs_problem(lhs, dout, group_sizes, *out)); });
}

ffi::Error drhs_sync_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                             ffi::AnyBuffer dout, ffi::AnyBuffer group_sizes, Result out,
                             int64_t site) {
  return fence([&] {
    execute(ordinal, drhs_problem(lhs, dout, group_sizes, *out),
            {lhs.untyped_data(), dout.untyped_data(), group_sizes.untyped_data(),
             out->untyped_data()},
            static_cast<uint64_t>(site), stream);
  });
}

}  // namespace graphsafe_gg
