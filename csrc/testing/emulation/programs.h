// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Device programs of a few lines, right and wrong, that show what the emulation sees.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graphsafe_gg::emulation {

// What 128 threads leave of the numbers from 0 to 127. Throws EmulationError.
std::vector<float> run_program(const std::string& name, uint64_t seed);

}  // namespace graphsafe_gg::emulation
