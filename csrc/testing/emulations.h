// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What each kernel of the project, and each filler kernel of the tests, computes.
#pragma once

#include <string>

#include "kernels/kernel_args.h"
#include "kernels/problem.h"
#include "testing/sim_kernels.h"

namespace graphsafe_gg::sim {

// The product that the kernel of this symbol computes with these arguments.
Problem problem_of(const std::string& symbol, const KernelArgs& args);

// Has no `run` when the symbol is unknown.
Emulation make_emulation(const std::string& symbol);

}  // namespace graphsafe_gg::sim
