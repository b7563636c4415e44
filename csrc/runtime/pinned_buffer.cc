// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/pinned_buffer.h"

#include <cstring>
#include <string>
#include <utility>

#include "runtime/check.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"

namespace graphsafe_gg {

PinnedBuffer::PinnedBuffer(size_t size_bytes, int ordinal)
    : size_bytes_(size_bytes), ordinal_(ordinal) {
  const CudaApi& api = cuda_api();
  const RelaxedCaptureMode relaxed(api);
  const cuda::Result status = api.mem_host_alloc(
      &host_, size_bytes, cuda::kMemHostAllocPortable | cuda::kMemHostAllocDeviceMap);
  if (status != cuda::kSuccess) {
    host_ = nullptr;
    const std::string call = "cuMemHostAlloc(" + std::to_string(size_bytes) + " bytes)";
    check(status, call.c_str(), ordinal);
  }
  try {
    check(api.mem_host_get_device_pointer(&device_, host_, 0), "cuMemHostGetDevicePointer",
          ordinal);
  } catch (...) {
    reset();
    throw;
  }
  std::memset(host_, 0, size_bytes);
}

PinnedBuffer::~PinnedBuffer() { reset(); }

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  host_ = std::exchange(other.host_, nullptr);
  device_ = std::exchange(other.device_, 0);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  ordinal_ = other.ordinal_;
  return *this;
}

void PinnedBuffer::reset() noexcept {
  if (host_ == nullptr) return;
  try {
    const CudaApi& api = cuda_api();
    // Not RelaxedCaptureMode, which throws: a driver that has shut down is no news here.
    int mode = cuda::kStreamCaptureModeRelaxed;
    const cuda::Result relaxed = api.thread_exchange_stream_capture_mode(&mode);
    check_noexcept(relaxed, "cuThreadExchangeStreamCaptureMode", ordinal_);
    check_noexcept(api.mem_free_host(host_), "cuMemFreeHost", ordinal_);
    if (relaxed == cuda::kSuccess) api.thread_exchange_stream_capture_mode(&mode);
  } catch (const std::exception& error) {
    report_once(error.what());
  }
  host_ = nullptr;
}

}  // namespace graphsafe_gg
