// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// "Swizzling modes" of the PTX ISA, the one over 128 bytes: it permutes the 16-byte chunks of a
// 128-byte row by the row's place among 8.
#pragma once

#include <cstdint>

namespace graphsafe_gg::emulation {

constexpr uint32_t kSwizzleChunkBytes = 16;

constexpr uint32_t swizzle_128(uint32_t address) { return address ^ ((address >> 7 & 7u) << 4); }

}  // namespace graphsafe_gg::emulation
