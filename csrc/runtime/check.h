// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The only code that puts a CUDA error into words.
#pragma once

#include <string>

#include "runtime/cuda_api.h"

namespace graphsafe_gg {

// "<call> failed on device <ordinal>: <name>: <text>". Ordinal -1 leaves the device out.
std::string describe(const CudaApi& api, cuda::Result status, const char* call, int ordinal);

// Throws OutOfMemory or DriverError unless the status is success.
void check(cuda::Result status, const char* call, int ordinal);

// For destructors: reports once and goes on. Silent once the driver has shut down.
void check_noexcept(cuda::Result status, const char* call, int ordinal) noexcept;

}  // namespace graphsafe_gg
