// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Numbers of the driver's interface that only the simulated driver and its tests need, and the
// stage that the executor announces.
#pragma once

#include <cstdint>

#include "runtime/cuda_driver.h"

namespace graphsafe_gg::sim {

using cuda::DevicePtr;
using cuda::Result;

constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotInitialized = 3;
constexpr Result kDeinitialized = 4;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidImage = 200;
constexpr Result kInvalidContext = 201;
constexpr Result kInvalidHandle = 400;
constexpr Result kIllegalState = 401;
constexpr Result kNotFound = 500;
constexpr Result kNotReady = 600;
constexpr Result kIllegalAddress = 700;
constexpr Result kLaunchFailed = 719;
constexpr Result kNotPermitted = 800;
constexpr Result kNotSupported = 801;
constexpr Result kCaptureUnsupported = 900;
constexpr Result kCaptureInvalidated = 901;
constexpr Result kCaptureMerge = 902;
constexpr Result kCaptureUnmatched = 903;
constexpr Result kCaptureUnjoined = 904;
constexpr Result kCaptureIsolation = 905;
constexpr Result kCaptureImplicit = 906;
constexpr Result kCapturedEvent = 907;
constexpr Result kCaptureWrongThread = 908;
constexpr Result kUnknown = 999;

// "CUDA_ERROR_NOT_READY"; null for a number that the simulation never returns.
const char* error_name(Result code);
const char* error_text(Result code);

enum CaptureMode : int { kModeGlobal = 0, kModeThreadLocal = 1, kModeRelaxed = 2 };
enum CaptureStatus : int { kCaptureNone = 0, kCaptureActive = 1, kCaptureStatusInvalidated = 2 };
enum NodeType : int {
  kNodeKernel = 0,
  kNodeMemcpy = 1,
  kNodeMemset = 2,
  kNodeGraph = 4,
  kNodeEmpty = 5,
  kNodeWaitEvent = 6,
  kNodeEventRecord = 7,
};

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventWaitExternal = 1;

// As an H200 reports them.
constexpr int kNumSms = 132;
constexpr int kMaxSmemBlockBytes = 227 << 10;
constexpr int kMaxSmemSmBytes = 228 << 10;

// What the executor is doing in this thread; kNone outside of it.
enum class Stage : uint8_t {
  kNone,
  kInstantiate,
  kPrepare,
  kInitialize,
  kExecuteEager,
  kExecuteCapture,
  kExecutor,  // XLA's own calls
};
const char* to_string(Stage stage);
Stage current_stage();

class StageScope {
 public:
  explicit StageScope(Stage stage);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  const Stage outer_;
};

}  // namespace graphsafe_gg::sim
