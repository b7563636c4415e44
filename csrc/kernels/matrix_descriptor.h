// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// How wgmma is told where an operand is. Shared by host and device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace graphsafe_gg::ptx {

// "Matrix descriptor" of a tile in rows of 128 bytes, swizzled over 128 bytes, its first row at a
// multiple of 1024. Rows stand in groups of 8, 1024 bytes each. `block_bytes` leads from one run of
// 64 columns to the next where columns are not the contraction; it is unused where they are.
GG_HOST_DEVICE constexpr uint64_t matrix_descriptor(uint32_t smem, uint32_t block_bytes) {
  constexpr uint64_t kSwizzle128 = 1ull << 62;
  constexpr uint64_t kGroupBytes = 1024;
  return kSwizzle128 | (kGroupBytes >> 4 << 32) | (static_cast<uint64_t>(block_bytes >> 4) << 16) |
         ((smem & 0x3ffff) >> 4);
}

}  // namespace graphsafe_gg::ptx
