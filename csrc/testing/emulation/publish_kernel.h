// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// csrc/kernels/publish.cu on the emulated device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graphsafe_gg::emulation {

// The ticket that it writes for the bytes of the sizes, `misalignment` bytes past an aligned
// address. One call at a time. Throws EmulationError.
std::vector<unsigned char> publish(const std::vector<unsigned char>& sizes, size_t misalignment,
                                   int ordinal, uint64_t seed);

}  // namespace graphsafe_gg::emulation
