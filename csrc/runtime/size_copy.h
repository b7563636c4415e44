// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The copy of group sizes to the host that waits: pinned buffers and events in use by one call at
// a time.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/event.h"
#include "runtime/pinned_buffer.h"

namespace graphsafe_gg {

class SizeCopyPool {
 public:
  explicit SizeCopyPool(int ordinal) : ordinal_(ordinal) {}

  struct Slot {
    PinnedBuffer buffer;
    Event event;
  };

  // Makes sure that a slot of this many bytes exists, so that a later acquire allocates only when
  // several threads copy at once.
  void reserve(size_t size_bytes);
  std::unique_ptr<Slot> acquire(size_t size_bytes);
  void release(std::unique_ptr<Slot> slot);

  size_t pinned_bytes() const;

 private:
  std::unique_ptr<Slot> make(size_t size_bytes);

  const int ordinal_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> free_;  // guarded by mutex_
  size_t largest_bytes_ = 0;                 // guarded by mutex_; of any slot, free or in use
  size_t pinned_bytes_ = 0;                  // guarded by mutex_
};

}  // namespace graphsafe_gg
