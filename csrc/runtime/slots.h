// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Slots: pinned host memory and an event for each ticket address, so that a host that holds a
// ticket finds the sizes its copy brought; and slots that a caller holds by hand. design/tickets.md
// draws their life.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/event.h"
#include "runtime/pinned_buffer.h"

namespace graphsafe_gg {

// Address and size never change: captured graphs write to it. A slot changes hands (recycled for
// another ticket) only while no graph holds it, no host reads it and its event is done.
struct Slot {
  void* host = nullptr;
  void* device = nullptr;  // the same memory, for kernels
  size_t size_bytes = 0;
  Event event;
  std::atomic<int> num_graphs{0};
  std::atomic<int> num_readers{0};
  // Work that writes to it may be in a stream with no event behind it yet, or, where a driver call
  // failed in between, ever.
  std::atomic<bool> is_untracked{false};
};

// Keeps a slot from being recycled while a host reads it. Null when there is none.
class SlotRef {
 public:
  SlotRef() = default;
  explicit SlotRef(Slot* slot) : slot_(slot) {}
  ~SlotRef() {
    if (slot_ != nullptr) slot_->num_readers.fetch_sub(1, std::memory_order_release);
  }
  SlotRef(SlotRef&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
  SlotRef& operator=(SlotRef&&) = delete;

  explicit operator bool() const { return slot_ != nullptr; }
  Slot* operator->() const { return slot_; }
  Slot* get() const { return slot_; }

 private:
  Slot* slot_ = nullptr;
};

class SlotTable {
 public:
  explicit SlotTable(int ordinal) : ordinal_(ordinal) {}

  // Makes a slot for the ticket if there is room, and in any case the sink for it. Initialize
  // stage only: it allocates.
  void ensure(const void* ticket, size_t ticket_bytes);

  // The ticket's slot, or none.
  SlotRef find(const void* ticket, size_t ticket_bytes);

  // Where a copy without a slot goes, so that every trace of a call has the same nodes. Nobody
  // reads it.
  Slot& sink(size_t ticket_bytes);

  // A slot for the caller alone until it releases it, whatever the cap. It comes back to another
  // caller once no graph holds it and its event is done. Outside captures only: it allocates.
  Slot& acquire(size_t ticket_bytes);
  void release(Slot& slot);

  size_t num_slots() const;
  size_t pinned_bytes() const;
  // The largest stamp any slot holds: how many copies have run on this device.
  uint64_t num_copies() const;

 private:
  using Key = std::pair<const void*, size_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.first) ^ (key.second * 0x9e3779b97f4a7c15u);
    }
  };

  std::unique_ptr<Slot> make(size_t ticket_bytes, bool may_exceed_cap);
  Slot* recycle(size_t ticket_bytes);
  bool carve(size_t size_bytes, bool may_exceed_cap, Slot& slot);

  static constexpr size_t kSlabBytes = size_t{64} << 10;
  static constexpr size_t kMaxPinnedBytes = size_t{512} << 10;

  const int ordinal_;
  mutable std::mutex mutex_;  // guards all below
  std::unordered_map<Key, Slot*, KeyHash> by_ticket_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<Slot>> lent_;
  std::map<size_t, std::unique_ptr<Slot>> sinks_;  // by size class
  std::vector<PinnedBuffer> slabs_;
  size_t slab_used_ = 0;
  size_t pinned_bytes_ = 0;
  size_t next_to_recycle_ = 0;
};

}  // namespace graphsafe_gg
