// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include "testing/emulation/cluster.h"

namespace graphsafe_gg::emulation {

uint32_t Block::offset(uint32_t address, uint32_t bytes, uint32_t alignment,
                       const char* what) const {
  const uint32_t end = kSharedBase + cluster->shared_bytes;
  if (address < kSharedBase || address > end || bytes > end - address) {
    cluster->scheduler.fail(std::string(what) + " touches " + std::to_string(bytes) + " bytes at " +
                            std::to_string(address) + ", outside of shared memory");
  }
  if (address % alignment != 0) {
    cluster->scheduler.fail(std::string(what) + " needs " + std::to_string(alignment) +
                            "-byte alignment; got the address " + std::to_string(address));
  }
  return address - kSharedBase;
}

void Block::write_both(uint32_t address, const void* bytes, uint32_t count, const char* what) {
  const uint32_t to = offset(address, count, 1, what);
  std::memmove(shared + to, bytes, count);
  std::memcpy(async_view.data() + to, shared + to, count);
}

}  // namespace graphsafe_gg::emulation
