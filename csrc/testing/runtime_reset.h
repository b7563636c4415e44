// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Ends the runtime's process-wide state, which otherwise outlives every test, so that each
// simulated driver starts with a fresh runtime and whatever it leaks shows.
#pragma once

namespace graphsafe_gg::testing {

// No handler may be running.
void drop_device_states();
void drop_kernel_libraries();

}  // namespace graphsafe_gg::testing
