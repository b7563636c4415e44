// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Makes a device's context current for a scope, and puts back what was there.
#pragma once

#include "runtime/check.h"

namespace graphsafe_gg {

class ContextGuard {
 public:
  ContextGuard(const CudaApi& api, CUcontext context, int ordinal) : api_(api), ordinal_(ordinal) {
    CUcontext current = nullptr;
    check(api.ctx_get_current(&current), "cuCtxGetCurrent", ordinal);
    if (current == context) return;
    check(api.ctx_push_current(context), "cuCtxPushCurrent", ordinal);
    has_pushed_ = true;
  }
  ~ContextGuard() {
    CUcontext popped = nullptr;
    if (has_pushed_) check_noexcept(api_.ctx_pop_current(&popped), "cuCtxPopCurrent", ordinal_);
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  const CudaApi& api_;
  int ordinal_;
  bool has_pushed_ = false;
};

// Lets this thread allocate and wait while another thread captures a graph.
class RelaxedCaptureMode {
 public:
  explicit RelaxedCaptureMode(const CudaApi& api) : api_(api) {
    check(api_.thread_exchange_stream_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode",
          -1);
  }
  ~RelaxedCaptureMode() {
    check_noexcept(api_.thread_exchange_stream_capture_mode(&mode_),
                   "cuThreadExchangeStreamCaptureMode", -1);
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;
  RelaxedCaptureMode& operator=(const RelaxedCaptureMode&) = delete;

 private:
  const CudaApi& api_;
  int mode_ = cuda::kStreamCaptureModeRelaxed;
};

}  // namespace graphsafe_gg
