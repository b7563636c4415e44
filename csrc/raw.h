// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The raw-stream interface: the launches of the FFI handlers, on a stream and on addresses that the
// caller owns. graphsafe_gg/raw is its Python side and checks the operands.
#pragma once

#include <nanobind/nanobind.h>

namespace graphsafe_gg {

// Adds RawSlot, raw_problem, raw_initialize, raw_launch and raw_dlpack to the module.
void bind_raw(nanobind::module_& m);

}  // namespace graphsafe_gg
