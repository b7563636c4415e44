// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Owns page-locked host memory, mapped into the devices' address space. Move-only.
#pragma once

#include <cstddef>

#include "runtime/cuda_driver.h"

namespace graphsafe_gg {

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // The current context must be the device's. Zero-filled. Throws OutOfMemory or DriverError.
  PinnedBuffer(size_t size_bytes, int ordinal);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  void* host() const { return host_; }
  cuda::DevicePtr device() const { return device_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  void reset() noexcept;

  void* host_ = nullptr;
  cuda::DevicePtr device_ = 0;
  size_t size_bytes_ = 0;
  int ordinal_ = -1;
};

}  // namespace graphsafe_gg
