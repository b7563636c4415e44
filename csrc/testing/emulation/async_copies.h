// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Copies to shared memory that are on their way: "cp.async" of a thread and boxes of a tensor map.
// Their targets read as NaN until they land.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graphsafe_gg::emulation {

// cp.async of one thread, in order.
struct ElementCopies {
  struct Copy {
    uint32_t smem;
    const unsigned char* from;
    uint32_t bytes;
    uint32_t live_bytes;  // those that are read; the others are zeros
  };
  std::vector<Copy> copies;
  std::vector<size_t> group_ends;  // in copies
};

void copy_async(uint32_t smem, const void* from, uint32_t bytes, uint32_t live_bytes);
void commit_copies();
void wait_for_copies(size_t max_pending);

struct BoxCopy {
  const void* map;
  uint32_t smem;
  uint32_t barrier;
  std::vector<int> at;  // the innermost coordinate first
};

// To the running block (`blocks` 0), or to those blocks of its cluster that have a bit.
void copy_box_async(const BoxCopy& copy, uint32_t blocks);

}  // namespace graphsafe_gg::emulation
