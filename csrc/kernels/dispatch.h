// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The one table from (product, dtype, layout, config) to a compiled kernel.
#pragma once

#include <string>

#include "kernels/config.h"
#include "kernels/problem.h"

namespace graphsafe_gg {

struct Kernel {
  const char* library;  // stem of the .cu file whose fatbin holds it
  const char* symbol;   // extern "C" name: says op, product, types and tile
};

// Null when no kernel is built for this combination. The pointer is to static storage.
const Kernel* find_kernel(const Problem& problem, const Config& config);

// Why find_kernel has nothing for the problem on this GPU, or empty.
std::string unsupported_reason(const Problem& problem, const DeviceTraits& device);

}  // namespace graphsafe_gg
