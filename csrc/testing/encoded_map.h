// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What the simulated driver writes into a tensor map.
#pragma once

#include <cstdint>

namespace graphsafe_gg::sim {

constexpr uint32_t kMapMark = 0x544d4150;
constexpr int kMaxMapRank = 5;

struct EncodedMap {
  uint64_t address;
  uint64_t strides[kMaxMapRank - 1];  // bytes, of every dimension but the innermost
  uint64_t dims[kMaxMapRank];         // elements, the innermost first
  uint32_t rank;
  uint32_t mark;
  uint32_t element_bytes;
  uint16_t box[kMaxMapRank];
};
static_assert(sizeof(EncodedMap) <= 128, "a tensor map has 128 bytes");

}  // namespace graphsafe_gg::sim
