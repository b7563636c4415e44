// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace graphsafe_gg::sim {
namespace {

constexpr size_t kReservedBytes = size_t{1} << 30;
constexpr size_t kAlignment = 256;
constexpr size_t kPage = 4096;
constexpr int kFresh = 0xcd;
constexpr int kFreed = 0xdd;

size_t round_up(size_t size_bytes, size_t to) {
  return size_bytes == 0 ? to : (size_bytes + to - 1) / to * to;
}

// The last entry of the map that begins at or before the address.
template <typename Map, typename Key>
auto find_at(const Map& map, Key address) {
  auto next = map.upper_bound(address);
  return next == map.begin() ? map.end() : std::prev(next);
}

}  // namespace

Memory::Memory(int num_devices) : mapped_(reserve()) {
  for (int i = 0; i < num_devices; ++i) devices_.push_back(reserve());
}

Memory::~Memory() {
  for (const Reservation& device : devices_) {
    munmap(reinterpret_cast<void*>(device.begin), kReservedBytes);
  }
  munmap(reinterpret_cast<void*>(mapped_.begin), kReservedBytes);
  for (void* host : graveyard_) std::free(host);
  for (const auto& [host, block] : pinned_) std::free(reinterpret_cast<void*>(host));
}

Memory::Reservation Memory::reserve() {
  void* begin =
      mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  return {reinterpret_cast<DevicePtr>(begin), 0};
}

DevicePtr Memory::carve(Reservation& reservation, size_t size_bytes) {
  if (reservation.used + size_bytes > kReservedBytes) return 0;
  const DevicePtr address = reservation.begin + reservation.used;
  reservation.used += size_bytes;
  return address;
}

DevicePtr Memory::allocate_device(int ordinal, size_t size_bytes) {
  const size_t rounded = round_up(size_bytes, kAlignment);
  std::vector<DevicePtr>& free = free_[{ordinal, rounded}];
  DevicePtr address = 0;
  if (!free.empty()) {
    address = free.back();
    free.pop_back();
  } else {
    address = carve(devices_[static_cast<size_t>(ordinal)], rounded);
  }
  if (address == 0) return 0;
  auto bytes = std::make_unique<std::byte[]>(size_bytes);
  std::memset(bytes.get(), kFresh, size_bytes);
  device_[address] = {ordinal, size_bytes, std::move(bytes)};
  return address;
}

bool Memory::free_device(DevicePtr address) {
  const auto found = device_.find(address);
  if (found == device_.end()) return false;
  const DeviceBlock& block = found->second;
  free_[{block.ordinal, round_up(block.size_bytes, kAlignment)}].push_back(address);
  device_.erase(found);
  return true;
}

void* Memory::allocate_pinned(size_t size_bytes) {
  const size_t rounded = round_up(size_bytes, kPage);
  const DevicePtr mapped = carve(mapped_, rounded);
  void* host = mapped == 0 ? nullptr : std::aligned_alloc(kPage, rounded);
  if (host == nullptr) return nullptr;
  std::memset(host, kFresh, rounded);
  pinned_[reinterpret_cast<uintptr_t>(host)] = {size_bytes, mapped};
  mapped_to_host_[mapped] = reinterpret_cast<uintptr_t>(host);
  return host;
}

bool Memory::free_pinned(void* host) {
  const auto found = pinned_.find(reinterpret_cast<uintptr_t>(host));
  if (found == pinned_.end()) return false;
  std::memset(host, kFreed, found->second.size_bytes);
  mapped_to_host_.erase(found->second.mapped);
  pinned_.erase(found);
  graveyard_.push_back(host);
  return true;
}

DevicePtr Memory::mapped_address(const void* host) const {
  const auto address = reinterpret_cast<uintptr_t>(host);
  const auto found = find_at(pinned_, address);
  if (found == pinned_.end() || address - found->first >= found->second.size_bytes) return 0;
  return found->second.mapped + (address - found->first);
}

std::byte* Memory::device_view(int ordinal, DevicePtr address, size_t size_bytes) const {
  const auto mapped = find_at(mapped_to_host_, address);
  if (mapped != mapped_to_host_.end()) {
    const auto host = mapped->second + (address - mapped->first);
    std::byte* view = pinned_view(reinterpret_cast<const void*>(host), size_bytes);
    if (view != nullptr) return view;
  }
  const auto found = find_at(device_, address);
  if (found == device_.end() || found->second.ordinal != ordinal) return nullptr;
  const size_t offset = address - found->first;
  const size_t block_bytes = found->second.size_bytes;
  if (offset > block_bytes || size_bytes > block_bytes - offset) return nullptr;
  return found->second.bytes.get() + offset;
}

std::byte* Memory::pinned_view(const void* host, size_t size_bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(host);
  const auto found = find_at(pinned_, address);
  if (found == pinned_.end()) return nullptr;
  const size_t offset = address - found->first;
  const size_t block_bytes = found->second.size_bytes;
  if (offset > block_bytes || size_bytes > block_bytes - offset) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

size_t Memory::pinned_bytes() const {
  size_t total = 0;
  for (const auto& [host, block] : pinned_) total += block.size_bytes;
  return total;
}

int Memory::ordinal_of(DevicePtr address) const {
  const auto found = find_at(device_, address);
  if (found == device_.end() || address - found->first > found->second.size_bytes) return -1;
  return found->second.ordinal;
}

}  // namespace graphsafe_gg::sim
