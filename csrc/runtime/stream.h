// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Owns a CUDA stream that does not synchronise with the null stream. Move-only.
#pragma once

#include <utility>

#include "runtime/check.h"

namespace graphsafe_gg {

class OwnedStream {
 public:
  OwnedStream() = default;
  // The current context must be the device's.
  explicit OwnedStream(int ordinal) : ordinal_(ordinal) {
    check(cuda_api().stream_create(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate", ordinal);
  }
  ~OwnedStream() { reset(); }
  OwnedStream(OwnedStream&& other) noexcept { *this = std::move(other); }
  OwnedStream& operator=(OwnedStream&& other) noexcept {
    if (this == &other) return *this;
    reset();
    stream_ = std::exchange(other.stream_, nullptr);
    ordinal_ = other.ordinal_;
    return *this;
  }

  CUstream get() const { return stream_; }

 private:
  void reset() noexcept {
    if (stream_ == nullptr) return;
    check_noexcept(cuda_api().stream_destroy(stream_), "cuStreamDestroy", ordinal_);
    stream_ = nullptr;
  }

  CUstream stream_ = nullptr;
  int ordinal_ = -1;
};

}  // namespace graphsafe_gg
