// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The launch of a call whose sizes the host knows: per-group cuBLASLt for few large groups, the
// project's own kernels otherwise. design/host_size_launch.md.
#pragma once

#include "runtime/early_copy.h"
#include "runtime/host_policy.h"
#include "runtime/launch.h"

namespace graphsafe_gg {

// Process-wide; applies to launches to come.
void set_cublaslt_use(CublasLtUse use);

// Loads and makes all that launch_with_sizes may need. Initialize stage only. Throws
// Unimplemented, with the reason, when no kernel is built for the problem.
void prepare_host_launch(DeviceState& device, const Problem& problem);

// The sizes have passed find_size_error. `ticket` is where host.stamp came from on the device, and
// unused when that is 0: the sizes are then the operand's own. Never captured. All that it enqueues
// is joined to the stream, whether it returns or throws.
void launch_with_sizes(DeviceState& device, const Problem& problem, const Operands& operands,
                       const HostSizes& host, const void* ticket, Site& site, CUstream stream);

}  // namespace graphsafe_gg
