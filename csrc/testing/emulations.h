// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What each kernel of the project, and each filler kernel of the tests, computes.
#pragma once

#include <string>

#include "testing/sim_kernels.h"

namespace graphsafe_gg::sim {

// Has no `run` when the symbol is unknown.
Emulation make_emulation(const std::string& symbol);

}  // namespace graphsafe_gg::sim
