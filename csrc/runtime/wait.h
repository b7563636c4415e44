// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The host's wait for an event: spins while short, sleeps when long.
#pragma once

#include "runtime/device_state.h"
#include "runtime/event.h"

namespace graphsafe_gg {

void wait_for_event(const Event& event, DeviceCounters& counters);

}  // namespace graphsafe_gg
