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
using Buffer = ffi::AnyBuffer;
using Result = ffi::Result<ffi::AnyBuffer>;

// Device mode. Graph-safe: launch and return. Initialize allocates and loads, outside any capture.
ffi::Error grouped_gemm_device_initialize(int32_t ordinal, Buffer lhs, Buffer rhs,
                                          Buffer group_sizes, Result out, bool transpose_rhs,
                                          int64_t site);
ffi::Error grouped_gemm_device_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer rhs,
                                       Buffer group_sizes, Result out, bool transpose_rhs,
                                       int64_t site);
ffi::Error drhs_device_initialize(int32_t ordinal, Buffer lhs, Buffer dout, Buffer group_sizes,
                                  Result out, int64_t site);
ffi::Error drhs_device_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer dout,
                               Buffer group_sizes, Result out, int64_t site);

// The early copy. Graph-safe.
ffi::Error group_sizes_copy_initialize(int32_t ordinal, Buffer group_sizes, Result ticket);
ffi::Error group_sizes_copy_execute(Stream stream, int32_t ordinal, Buffer group_sizes,
                                    Result ticket);

// The ticket of a copy that no host waits for. Graph-safe, in bodies of conditionals and loops too.
ffi::Error group_sizes_ticket_initialize(int32_t ordinal, Buffer group_sizes, Result ticket);
ffi::Error group_sizes_ticket_execute(Stream stream, int32_t ordinal, Buffer group_sizes,
                                      Result ticket);

// Sync mode: copies the sizes, waits, checks them, then launches. Never captured.
ffi::Error grouped_gemm_sync_initialize(int32_t ordinal, Buffer lhs, Buffer rhs, Buffer group_sizes,
                                        Result out, bool transpose_rhs, int64_t site);
ffi::Error grouped_gemm_sync_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer rhs,
                                     Buffer group_sizes, Result out, bool transpose_rhs,
                                     int64_t site);
ffi::Error drhs_sync_initialize(int32_t ordinal, Buffer lhs, Buffer dout, Buffer group_sizes,
                                Result out, int64_t site);
ffi::Error drhs_sync_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer dout,
                             Buffer group_sizes, Result out, int64_t site);

// Async mode: waits for the ticket's copy, checks the sizes, then launches. Never captured.
// `fallback` is the Fallback that the lowering already decided on, counted here.
ffi::Error grouped_gemm_async_initialize(int32_t ordinal, Buffer lhs, Buffer rhs,
                                         Buffer group_sizes, Buffer ticket, Result out,
                                         bool transpose_rhs, int64_t site, int64_t fallback);
ffi::Error grouped_gemm_async_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer rhs,
                                      Buffer group_sizes, Buffer ticket, Result out,
                                      bool transpose_rhs, int64_t site, int64_t fallback);
ffi::Error drhs_async_initialize(int32_t ordinal, Buffer lhs, Buffer dout, Buffer group_sizes,
                                 Buffer ticket, Result out, int64_t site, int64_t fallback);
ffi::Error drhs_async_execute(Stream stream, int32_t ordinal, Buffer lhs, Buffer dout,
                              Buffer group_sizes, Buffer ticket, Result out, int64_t site,
                              int64_t fallback);

// CPU: every mode is the same call, and a ticket is a plain copy of the sizes.
ffi::Error grouped_gemm_cpu(Buffer lhs, Buffer rhs, Buffer group_sizes, Result out,
                            bool transpose_rhs, int64_t site);
ffi::Error drhs_cpu(Buffer lhs, Buffer dout, Buffer group_sizes, Result out, int64_t site);
ffi::Error grouped_gemm_async_cpu(Buffer lhs, Buffer rhs, Buffer group_sizes, Buffer ticket,
                                  Result out, bool transpose_rhs, int64_t site, int64_t fallback);
ffi::Error drhs_async_cpu(Buffer lhs, Buffer dout, Buffer group_sizes, Buffer ticket, Result out,
                          int64_t site, int64_t fallback);
ffi::Error group_sizes_copy_cpu(Buffer group_sizes, Result ticket);

// What a device handler does when a kernel recorded bad sizes in an earlier execution: log once,
// raise, or leave it to the caller's check.
enum class OnBadSizes { kLog, kRaise, kCheck };
void set_on_bad_sizes(OnBadSizes policy);

}  // namespace graphsafe_gg
