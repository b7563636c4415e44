// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The second argument of kernels that read their operands through tensor maps. Shared by host and
// device.
#pragma once

#include <cstdint>

namespace graphsafe_gg {

struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

struct TensorMaps {
  TensorMap lhs;  // (m, k)
  TensorMap rhs;  // (g, k, n) or (g, n, k)
  // 0: the addresses are not aligned as maps need it, and the kernel copies element by element, to
  // the same result.
  uint32_t is_valid;
};

// A box of an operand in shared memory is rows of 128 bytes, swizzled over 128 bytes.
constexpr int kBoxRowBytes = 128;
constexpr int kLhsBoxRows = 64;

// Of kernels that compute the transposed tile.
constexpr int transposed_box_rows(int block_m) { return block_m < 32 ? block_m : 32; }

}  // namespace graphsafe_gg
