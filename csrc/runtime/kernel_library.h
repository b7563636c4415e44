// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Loads the embedded fatbins. Library and kernel handles belong to no context and are shared by
// all devices.
#pragma once

#include "kernels/dispatch.h"
#include "runtime/cuda_driver.h"

namespace graphsafe_gg {

// Loads the kernel's library at first use. Never call it while capturing. Throws Unimplemented
// when the build or the driver has no code for it.
CUkernel load_kernel(const Kernel& kernel, int ordinal);

}  // namespace graphsafe_gg
