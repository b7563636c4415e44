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
  // After a failure, while the copy may still be pending on the stream: the slot is used again
  // once its event shows that it is not.
  void retire(std::unique_ptr<Slot> slot, CUstream stream);

  size_t pinned_bytes() const;

 private:
  std::unique_ptr<Slot> make(size_t size_bytes);
  void reclaim();  // expects mutex_ held

  const int ordinal_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> free_;     // guarded by mutex_
  std::vector<std::unique_ptr<Slot>> retired_;  // guarded by mutex_; each event is recorded
  std::vector<std::unique_ptr<Slot>> lost_;     // guarded by mutex_; no event tells when it is free
  size_t largest_bytes_ = 0;                    // guarded by mutex_; of any slot, free or in use
  size_t pinned_bytes_ = 0;                     // guarded by mutex_
};

}  // namespace graphsafe_gg
