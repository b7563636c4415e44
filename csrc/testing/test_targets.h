// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Handlers that break the rules, to show that the executor and the simulated driver notice.
#pragma once

#include <vector>

#include "ffi/registrations.h"

namespace graphsafe_gg::testing {

const std::vector<Registration>& test_targets();

}  // namespace graphsafe_gg::testing
