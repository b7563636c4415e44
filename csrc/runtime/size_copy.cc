// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/size_copy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/context_guard.h"

namespace graphsafe_gg {
namespace {

// One page serves up to 512 groups of the widest type; growth in powers of two bounds the number
// of sizes.
size_t round_up(size_t size_bytes) {
  size_t rounded = 4096;
  while (rounded < size_bytes) rounded *= 2;
  return rounded;
}

}  // namespace

std::unique_ptr<SizeCopyPool::Slot> SizeCopyPool::make(size_t size_bytes) {
  auto slot = std::make_unique<Slot>();
  slot->buffer = PinnedBuffer(size_bytes, ordinal_);
  slot->event = Event(ordinal_);
  std::lock_guard<std::mutex> lock(mutex_);
  largest_bytes_ = std::max(largest_bytes_, size_bytes);
  pinned_bytes_ += size_bytes;
  return slot;
}

void SizeCopyPool::reserve(size_t size_bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (largest_bytes_ >= size_bytes) return;
  }
  release(make(round_up(size_bytes)));
}

std::unique_ptr<SizeCopyPool::Slot> SizeCopyPool::acquire(size_t size_bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    reclaim();
    const auto fits = std::find_if(free_.begin(), free_.end(), [&](const auto& slot) {
      return slot->buffer.size_bytes() >= size_bytes;
    });
    if (fits != free_.end()) {
      auto slot = std::move(*fits);
      free_.erase(fits);
      return slot;
    }
  }
  return make(round_up(size_bytes));
}

void SizeCopyPool::release(std::unique_ptr<Slot> slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(slot));
}

void SizeCopyPool::retire(std::unique_ptr<Slot> slot, CUstream stream) {
  const bool is_recorded = cuda_api().event_record(slot->event.get(), stream) == cuda::kSuccess;
  std::lock_guard<std::mutex> lock(mutex_);
  (is_recorded ? retired_ : lost_).push_back(std::move(slot));
}

void SizeCopyPool::reclaim() {
  if (retired_.empty()) return;
  const RelaxedCaptureMode relaxed(cuda_api());
  const auto pending = std::partition(retired_.begin(), retired_.end(), [](const auto& slot) {
    return cuda_api().event_query(slot->event.get()) != cuda::kSuccess;
  });
  std::move(pending, retired_.end(), std::back_inserter(free_));
  retired_.erase(pending, retired_.end());
}

size_t SizeCopyPool::pinned_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pinned_bytes_;
}

}  // namespace graphsafe_gg
