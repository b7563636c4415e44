// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The runtime's source, with access to its table of libraries. The linker takes these definitions
// instead of the core library's.
#include "runtime/kernel_library.cc"  // NOLINT: on purpose
#include "testing/runtime_reset.h"

namespace graphsafe_gg::testing {

void drop_kernel_libraries() {
  std::lock_guard<std::mutex> lock(libraries().mutex);
  libraries().loaded.clear();
}

}  // namespace graphsafe_gg::testing
