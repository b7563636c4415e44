// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The ticket: what a copy of the group sizes leaves on the device, and, byte for byte, in a slot
// of pinned host memory. Shared by host and device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace graphsafe_gg {

// The sizes follow, zero-padded to whole words.
struct TicketHeader {
  uint64_t stamp;       // of one execution of a copy: see ticket_stamp
  uint64_t checksum;    // of stamp and payload: shows a slot that was read while it was rewritten
  uint64_t size_bytes;  // of the payload without padding
  uint64_t reserved;
};

constexpr int64_t kTicketWordBytes = 4;

// Stamps count the executions of copies on their device, from 1, below the device's ordinal. So no
// two devices of a process draw the same one, and a ticket or slot that was copied from one to
// another matches nothing there.
constexpr int kStampDeviceShift = 48;

GG_HOST_DEVICE constexpr uint64_t ticket_stamp(int ordinal, uint64_t count) {
  return (static_cast<uint64_t>(ordinal) << kStampDeviceShift) | count;
}

GG_HOST_DEVICE constexpr uint64_t ticket_count(uint64_t stamp) {
  return stamp & ((uint64_t{1} << kStampDeviceShift) - 1);
}

GG_HOST_DEVICE constexpr int64_t ticket_payload_words(int64_t size_bytes) {
  return (size_bytes + kTicketWordBytes - 1) / kTicketWordBytes;
}

GG_HOST_DEVICE constexpr int64_t ticket_bytes(int64_t size_bytes) {
  return static_cast<int64_t>(sizeof(TicketHeader)) +
         ticket_payload_words(size_bytes) * kTicketWordBytes;
}

// One term of the checksum, the sum of all terms modulo 2^64: order does not matter, so that the
// threads of a block share the work. Word -1 stands for the stamp.
GG_HOST_DEVICE constexpr uint64_t ticket_checksum_term(uint64_t value, int64_t word) {
  uint64_t x = value + 0x9e3779b97f4a7c15ull * (static_cast<uint64_t>(word) + 2);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

struct PublishArgs {
  const void* group_sizes;
  void* ticket;  // aligned to 16 bytes
  int64_t size_bytes;
  int ordinal;  // of this device
};

}  // namespace graphsafe_gg
