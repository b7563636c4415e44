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

using Attributes = CallAttributes;

// Every product has these operands: lhs, then rhs or dout, the sizes, what `operands` of the
// attributes names, and the result.
#define GG_OPERANDS                                                                   \
  Buffer lhs, Buffer second, Buffer group_sizes, ffi::RemainingArgs rest, Result out, \
      Attributes attributes

// Device mode. Graph-safe: launch and return. Initialize allocates and loads, outside any capture.
ffi::Error grouped_gemm_device_initialize(int32_t ordinal, GG_OPERANDS);
ffi::Error grouped_gemm_device_execute(Stream stream, int32_t ordinal, GG_OPERANDS);
ffi::Error drhs_device_initialize(int32_t ordinal, GG_OPERANDS);
ffi::Error drhs_device_execute(Stream stream, int32_t ordinal, GG_OPERANDS);

// Sync mode: copies the sizes, waits, checks them, then launches. Never captured.
ffi::Error grouped_gemm_sync_execute(Stream stream, int32_t ordinal, GG_OPERANDS);
ffi::Error drhs_sync_execute(Stream stream, int32_t ordinal, GG_OPERANDS);

// Async mode: waits for the ticket's copy, checks the sizes, then launches. Never captured.
ffi::Error grouped_gemm_async_execute(Stream stream, int32_t ordinal, GG_OPERANDS);
ffi::Error drhs_async_execute(Stream stream, int32_t ordinal, GG_OPERANDS);

// Of both modes that know the sizes on the host.
ffi::Error grouped_gemm_host_sizes_initialize(int32_t ordinal, GG_OPERANDS);
ffi::Error drhs_host_sizes_initialize(int32_t ordinal, GG_OPERANDS);

// The early copy. Graph-safe.
ffi::Error group_sizes_copy_initialize(int32_t ordinal, Buffer group_sizes, Result ticket);
ffi::Error group_sizes_copy_execute(Stream stream, int32_t ordinal, Buffer group_sizes,
                                    Result ticket);

// The ticket of a copy that no host waits for. Graph-safe, in bodies of conditionals and loops too.
ffi::Error group_sizes_ticket_initialize(int32_t ordinal, Buffer group_sizes, Result ticket);
ffi::Error group_sizes_ticket_execute(Stream stream, int32_t ordinal, Buffer group_sizes,
                                      Result ticket);

// CPU: every mode is the same call, and a ticket is a plain copy of the sizes.
ffi::Error grouped_gemm_cpu(ffi::ThreadPool pool, GG_OPERANDS);
ffi::Error drhs_cpu(ffi::ThreadPool pool, GG_OPERANDS);
ffi::Error group_sizes_copy_cpu(Buffer group_sizes, Result ticket);

// What a device handler does when a kernel recorded bad sizes in an earlier execution: log once,
// raise, or leave it to the caller's check.
enum class OnBadSizes { kLog, kRaise, kCheck };
void set_on_bad_sizes(OnBadSizes policy);

}  // namespace graphsafe_gg
