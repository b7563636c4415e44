// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The runtime's source, with access to its table of states. The linker takes these definitions
// instead of the core library's.
#include "runtime/device_state.cc"  // NOLINT: on purpose
#include "testing/runtime_reset.h"

namespace graphsafe_gg::testing {

void drop_device_states() {
  for (auto& state : registry().states) delete state.exchange(nullptr);
}

}  // namespace graphsafe_gg::testing
