// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/slots.h"

#include <algorithm>
#include <cstring>
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

// True if the slot can serve another ticket of this size.
bool is_idle(const Slot& slot, size_t ticket_bytes) {
  return slot.size_bytes == ticket_bytes && slot.num_graphs.load() == 0 &&
         slot.num_readers.load() == 0 && !slot.is_untracked.load() && slot.event.is_done();
}

}  // namespace

void SlotTable::ensure(const void* ticket, size_t ticket_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
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
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_ticket_.find({ticket, ticket_bytes});
  if (found == by_ticket_.end()) return SlotRef();
  found->second->num_readers.fetch_add(1, std::memory_order_acquire);
  return SlotRef(found->second);
}

Slot& SlotTable::sink(size_t ticket_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sinks_.find(sink_class(ticket_bytes));
  if (found == sinks_.end()) {
    throw DriverError("a copy of " + std::to_string(ticket_bytes) +
                      " bytes must be initialized before execution; XLA called no initialize "
                      "stage.");
  }
  return *found->second;
}

Slot& SlotTable::acquire(size_t ticket_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Another thread's capture must not be disturbed by the queries.
  const RelaxedCaptureMode relaxed(cuda_api());
  auto found = std::find_if(lent_.begin(), lent_.end(),
                            [&](const auto& slot) { return is_idle(*slot, ticket_bytes); });
  if (found == lent_.end()) {
    found = lent_.insert(found, make(ticket_bytes, /*may_exceed_cap=*/true));
  }
  Slot& slot = **found;
  std::memset(slot.host, 0, ticket_bytes);
  slot.num_readers.store(1, std::memory_order_relaxed);
  return slot;
}

void SlotTable::release(Slot& slot) { slot.num_readers.store(0, std::memory_order_release); }

std::unique_ptr<Slot> SlotTable::make(size_t ticket_bytes, bool may_exceed_cap) {
  auto slot = std::make_unique<Slot>();
  if (!carve(round_up(ticket_bytes), may_exceed_cap, *slot)) return nullptr;
  slot->size_bytes = ticket_bytes;
  try {
    slot->event = Event(ordinal_);
  } catch (...) {
    slab_used_ -= round_up(ticket_bytes);  // the last to be carved
    throw;
  }
  return slot;
}

bool SlotTable::carve(size_t size_bytes, bool may_exceed_cap, Slot& slot) {
  if (slabs_.empty() || slab_used_ + size_bytes > slabs_.back().size_bytes()) {
    const size_t slab_bytes = std::max(kSlabBytes, size_bytes);
    if (!may_exceed_cap && pinned_bytes_ + slab_bytes > kMaxPinnedBytes) return false;
    slabs_.emplace_back(slab_bytes, ordinal_);
    pinned_bytes_ += slab_bytes;
    slab_used_ = 0;
  }
  const PinnedBuffer& slab = slabs_.back();
  slot.host = static_cast<char*>(slab.host()) + slab_used_;
  slot.device = reinterpret_cast<void*>(slab.device() + slab_used_);
  slab_used_ += size_bytes;
  return true;
}

// Takes the slot of another ticket of this size that is idle, going round so that the longest
// untouched comes first.
Slot* SlotTable::recycle(size_t ticket_bytes) {
  // Another thread's capture must not be disturbed by the queries.
  const RelaxedCaptureMode relaxed(cuda_api());
  for (size_t tried = 0; tried < slots_.size(); ++tried) {
    next_to_recycle_ = (next_to_recycle_ + 1) % slots_.size();
    Slot* slot = slots_[next_to_recycle_].get();
    if (!is_idle(*slot, ticket_bytes)) continue;
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
  std::lock_guard<std::mutex> lock(mutex_);
  return slots_.size() + lent_.size();
}

size_t SlotTable::pinned_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pinned_bytes_;
}

uint64_t SlotTable::num_copies() const {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t largest = 0;
  const auto see = [&largest](const Slot& slot) {
    const auto* header = static_cast<const TicketHeader*>(slot.host);
    largest = std::max(largest, ticket_count(__atomic_load_n(&header->stamp, __ATOMIC_RELAXED)));
  };
  for (const auto& slot : slots_) see(*slot);
  for (const auto& slot : lent_) see(*slot);
  for (const auto& [bytes, sink] : sinks_) see(*sink);
  return largest;
}

}  // namespace graphsafe_gg
