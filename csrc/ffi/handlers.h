// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The handler bodies, one per target, platform and stage. Bindings and traits stand in
// registrations.cc alone.
#pragma once

#include <cstdint>

#include "ffi/boundary.h"
#include "runtime/cuda_driver.h"

namespace graphsafe_gg {

using Stream = CUstream;
using Result = ffi::Result<ffi::AnyBuffer>;

// Graph-safe: launch and return. Initialize allocates and loads, outside any capture.
ffi::Error grouped_gemm_device_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs,
                                          ffi::AnyBuffer group_sizes, Result out,
                                          bool transpose_rhs, int64_t site);
ffi::Error grouped_gemm_device_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                                       ffi::AnyBuffer rhs, ffi::AnyBuffer group_sizes, Result out,
                                       bool transpose_rhs, int64_t site);
ffi::Error drhs_device_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer dout,
                                  ffi::AnyBuffer group_sizes, Result out, int64_t site);
ffi::Error drhs_device_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                               ffi::AnyBuffer dout, ffi::AnyBuffer group_sizes, Result out,
                               int64_t site);

// Host-waiting: copies the sizes, waits, checks them, then launches. Never captured.
ffi::Error grouped_gemm_sync_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs,
                                        ffi::AnyBuffer group_sizes, Result out,
                                        bool transpose_rhs, int64_t site);
ffi::Error grouped_gemm_sync_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                                     ffi::AnyBuffer rhs, ffi::AnyBuffer group_sizes, Result out,
                                     bool transpose_rhs, int64_t site);
ffi::Error drhs_sync_initialize(int32_t ordinal, ffi::AnyBuffer lhs, ffi::AnyBuffer dout,
                                ffi::AnyBuffer group_sizes, Result out, int64_t site);
ffi::Error drhs_sync_execute(Stream stream, int32_t ordinal, ffi::AnyBuffer lhs,
                             ffi::AnyBuffer dout, ffi::AnyBuffer group_sizes, Result out,
                             int64_t site);

// CPU: every mode is the same call.
ffi::Error grouped_gemm_cpu(ffi::AnyBuffer lhs, ffi::AnyBuffer rhs, ffi::AnyBuffer group_sizes,
                            Result out, bool transpose_rhs, int64_t site);
ffi::Error drhs_cpu(ffi::AnyBuffer lhs, ffi::AnyBuffer dout, ffi::AnyBuffer group_sizes,
                    Result out, int64_t site);

// What a device handler does when a kernel recorded bad sizes in an earlier execution: log once,
// raise, or leave it to the caller's check.
enum class OnBadSizes { kLog, kRaise, kCheck };
void set_on_bad_sizes(OnBadSizes policy);

}  // namespace graphsafe_gg
