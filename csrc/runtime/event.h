// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Owns a CUDA event without timing. Move-only. Borrowed streams are plain CUstream values: XLA
// owns them.
#pragma once

#include <utility>

#include "runtime/check.h"

namespace graphsafe_gg {

class Event {
 public:
  Event() = default;
  // The current context must be the device's.
  explicit Event(int ordinal) : ordinal_(ordinal) {
    check(cuda_api().event_create(&event_, cuda::kEventDisableTiming), "cuEventCreate", ordinal);
  }
  ~Event() { reset(); }
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept {
    if (this == &other) return *this;
    reset();
    event_ = std::exchange(other.event_, nullptr);
    ordinal_ = other.ordinal_;
    return *this;
  }

  CUevent get() const { return event_; }
  void record(CUstream stream) const {
    check(cuda_api().event_record(event_, stream), "cuEventRecord", ordinal_);
  }
  bool is_done() const {
    const cuda::Result status = cuda_api().event_query(event_);
    if (status == cuda::kErrorNotReady) return false;
    check(status, "cuEventQuery", ordinal_);
    return true;
  }

 private:
  void reset() noexcept {
    if (event_ == nullptr) return;
    check_noexcept(cuda_api().event_destroy(event_), "cuEventDestroy", ordinal_);
    event_ = nullptr;
  }

  CUevent event_ = nullptr;
  int ordinal_ = -1;
};

}  // namespace graphsafe_gg
