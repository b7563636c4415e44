// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/slots.h"

#include <algorithm>
#include <string>

#include "kernels/ticket.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

// A slot starts on its own cache line, so that no two of them share a PCIe write.
constexpr size_t kSlotAlignment = 64;

size_t round_up(size_t size_bytes) {
  return (size_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

// Tickets of many sizes share few sinks, whose memory thus stays below four of the largest.
size_t sink_class(size_t ticket_bytes) {
  size_t bytes = kSlotAlignment;
  while (bytes < ticket_bytes) bytes *= 2;
  return bytes;
}

}  // namespace

void SlotTable::ensure(const void* ticket, size_t ticket_bytes) {
  {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    if (by_ticket_.count({ticket, ticket_bytes}) != 0) return;
  }
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (by_ticket_.count({ticket, ticket_bytes}) != 0) return;
  const size_t sink_bytes = sink_class(ticket_bytes);
  if (sinks_.count(sink_bytes) == 0) {
    sinks_[sink_bytes] = make(sink_bytes, /*may_exceed_cap=*/true);
  }
  std::unique_ptr<Slot> made = make(ticket_bytes, /*may_exceed_cap=*/false);
  Slot* slot = made.get();
  if (made != nullptr) {
    slots_.push_back(std::move(made));
  } else {
    slot = recycle(ticket_bytes);
  }
  if (slot != nullptr) by_ticket_[{ticket, ticket_bytes}] = slot;
}

SlotRef SlotTable::find(const void* ticket, size_t ticket_bytes) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto found = by_ticket_.find({ticket, ticket_bytes});
  if (found == by_ticket_.end()) return SlotRef();
  found->second->num_readers.fetch_add(1, std::memory_order_acquire);
  return SlotRef(found->second);
}

Slot& SlotTable::sink(size_t ticket_bytes) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto found = sinks_.find(sink_class(ticket_bytes));
  if (found == sinks_.end()) {
    throw DriverError("a copy of " + std::to_string(ticket_bytes) +
                      " bytes must be initialized before execution; XLA called no initialize "
                      "stage.");
  }
  return *found->second;
}

std::unique_ptr<Slot> SlotTable::make(size_t ticket_bytes, bool may_exceed_cap) {
  void* host = carve(round_up(ticket_bytes), may_exceed_cap);
  if (host == nullptr) return nullptr;
  auto slot = std::make_unique<Slot>();
  slot->host = host;
  slot->size_bytes = ticket_bytes;
  try {
    slot->event = Event(ordinal_);
  } catch (...) {
    slab_used_ -= round_up(ticket_bytes);  // the last to be carved
    throw;
  }
  return slot;
}

void* SlotTable::carve(size_t size_bytes, bool may_exceed_cap) {
  if (slabs_.empty() || slab_used_ + size_bytes > slabs_.back().size_bytes()) {
    const size_t slab_bytes = std::max(kSlabBytes, size_bytes);
    if (!may_exceed_cap && pinned_bytes_ + slab_bytes > kMaxPinnedBytes) return nullptr;
    slabs_.emplace_back(slab_bytes, ordinal_);
    pinned_bytes_ += slab_bytes;
    slab_used_ = 0;
  }
  void* host = static_cast<char*>(slabs_.back().host()) + slab_used_;
  slab_used_ += size_bytes;
  return host;
}

// Takes the slot of another ticket of this size that is idle, going round so that the longest
// untouched comes first.
Slot* SlotTable::recycle(size_t ticket_bytes) {
  // Another thread's capture must not be disturbed by the queries.
  const RelaxedCaptureMode relaxed(cuda_api());
  for (size_t tried = 0; tried < slots_.size(); ++tried) {
    next_to_recycle_ = (next_to_recycle_ + 1) % slots_.size();
    Slot* slot = slots_[next_to_recycle_].get();
    if (slot->size_bytes != ticket_bytes || slot->num_graphs.load() != 0 ||
        slot->num_readers.load() != 0 || !slot->event.is_done()) {
      continue;
    }
    for (auto entry = by_ticket_.begin(); entry != by_ticket_.end(); ++entry) {
      if (entry->second != slot) continue;
      by_ticket_.erase(entry);
      break;
    }
    return slot;
  }
  return nullptr;
}

size_t SlotTable::num_slots() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return slots_.size();
}

size_t SlotTable::pinned_bytes() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return pinned_bytes_;
}

uint64_t SlotTable::num_copies() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  uint64_t largest = 0;
  const auto see = [&largest](const Slot& slot) {
    const auto* header = static_cast<const TicketHeader*>(slot.host);
    largest = std::max(largest, __atomic_load_n(&header->stamp, __ATOMIC_RELAXED));
  };
  for (const auto& slot : slots_) see(*slot);
  for (const auto& [bytes, sink] : sinks_) see(*sink);
  return largest;
}

}  // namespace graphsafe_gg
