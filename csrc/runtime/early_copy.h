// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The early copy of group sizes: device -> ticket -> slot, and the host's side of it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device_state.h"
#include "runtime/group_sizes.h"

namespace graphsafe_gg {

struct GroupSizesView {
  const void* data;  // on the device
  IndexType type;
  int64_t count;

  int64_t payload_bytes() const { return count * size_bytes(type); }
};

// Initialize stage: the kernel that every copy launches.
void prepare_publish(DeviceState& device);

// Initialize stage: slot, sink and kernel.
void prepare_early_copy(DeviceState& device, int64_t payload_bytes, const void* ticket);

// Writes the ticket, copies it to its slot and records the slot's event: three nodes, always.
// Capturable.
void issue_early_copy(DeviceState& device, const GroupSizesView& sizes, void* ticket,
                      CUstream stream);

// Writes the ticket and nothing more, for a copy that no host waits for: one node, legal also in
// the body of a captured conditional or loop, where an event record is not. Capturable.
void issue_ticket(DeviceState& device, const GroupSizesView& sizes, void* ticket, CUstream stream);

// As issue_early_copy, from the device's sizes into a slot that the caller holds by hand: the
// kernel writes to the slot's mapped memory, so that there is no ticket and there are two nodes.
void issue_copy_to_slot(DeviceState& device, const GroupSizesView& sizes, Slot& slot,
                        CUstream stream);

// Waits for the slot's last copy and reads it. Throws InvalidArgument if none ever ran, or if
// another one has begun to rewrite the slot. Never captured.
std::vector<int64_t> wait_for_slot(DeviceState& device, const GroupSizesView& sizes,
                                   const Slot& slot, Site& site);

struct HostSizes {
  std::vector<int64_t> sizes;
  uint64_t stamp;     // of the ticket they came with; 0 for the call's own copy
  Fallback fallback;  // why the call made its own copy
};

// Waits for the ticket's copy and reads its slot. Without a usable slot, copies the sizes anew and
// waits for that. Never captured.
HostSizes wait_for_ticket(DeviceState& device, const GroupSizesView& sizes, const void* ticket,
                          Site& site, CUstream stream);

// Copies the sizes now and waits. Never captured.
std::vector<int64_t> copy_and_wait(DeviceState& device, const GroupSizesView& sizes, Site& site,
                                   CUstream stream);

}  // namespace graphsafe_gg
