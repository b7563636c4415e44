// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The host's wait for an event: spins while short, sleeps when long, warns once after a minute.
#pragma once

#include "runtime/event.h"
#include "runtime/sites.h"

namespace graphsafe_gg {

// Seconds after which a wait becomes a DriverError; 0 waits for ever.
void set_wait_deadline(double seconds);
// Seconds after which a wait is reported, once for each call site: 60.
void set_wait_warning_for_testing(double seconds);

// Throws DriverError when the deadline passes or the event reports an error. Counted at the site.
void wait_for_event(const Event& event, Site& site);

}  // namespace graphsafe_gg
