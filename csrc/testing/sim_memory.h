// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Device and pinned memory. Device addresses are reserved but unreadable, so that a host that
// follows one crashes; only the simulation reaches the bytes behind them. Mapped pinned memory has
// a device address of its own.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "testing/sim_types.h"

namespace graphsafe_gg::sim {

// Guarded by the driver's lock.
class Memory {
 public:
  explicit Memory(int num_devices);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // 0 when the device is full. Contents are a pattern.
  DevicePtr allocate_device(int ordinal, size_t size_bytes);
  bool free_device(DevicePtr address);
  // Contents are a pattern; freed memory gets another one and stays readable.
  void* allocate_pinned(size_t size_bytes);
  bool free_pinned(void* host);
  // Device address of pinned memory, or 0.
  DevicePtr mapped_address(const void* host) const;

  // The bytes behind an address that the device may touch; null if any of them lies outside live
  // memory of this device or pinned memory.
  std::byte* device_view(int ordinal, DevicePtr address, size_t size_bytes) const;
  // The same for a host pointer.
  std::byte* pinned_view(const void* host, size_t size_bytes) const;

  size_t num_device_blocks() const { return device_.size(); }
  size_t num_pinned_blocks() const { return pinned_.size(); }
  size_t pinned_bytes() const;
  // Device with this address, or -1.
  int ordinal_of(DevicePtr address) const;

 private:
  struct DeviceBlock {
    int ordinal;
    size_t size_bytes;
    std::unique_ptr<std::byte[]> bytes;
  };
  struct PinnedBlock {
    size_t size_bytes;
    DevicePtr mapped;
  };
  struct Reservation {
    DevicePtr begin = 0;
    size_t used = 0;
  };
  static Reservation reserve();
  static DevicePtr carve(Reservation& reservation, size_t size_bytes);

  std::vector<Reservation> devices_;
  Reservation mapped_;
  std::map<DevicePtr, DeviceBlock> device_;                        // by address
  std::map<std::pair<int, size_t>, std::vector<DevicePtr>> free_;  // by (device, rounded bytes)
  std::map<uintptr_t, PinnedBlock> pinned_;                        // by host address
  std::map<DevicePtr, uintptr_t> mapped_to_host_;
  std::vector<void*> graveyard_;
};

}  // namespace graphsafe_gg::sim
