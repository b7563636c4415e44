// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's C interface that is used here, declared by hand so that the host
// code builds without a toolkit. tests/unit/test_driver_declarations checks it against cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

// The same names and types as in cuda.h, so that both may be included.
typedef struct CUctx_st* CUcontext;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef struct CUfunc_st* CUfunction;
typedef struct CUlib_st* CUlibrary;
typedef struct CUkern_st* CUkernel;
typedef struct CUgraph_st* CUgraph;
typedef struct CUuserObject_st* CUuserObject;

namespace graphsafe_gg::cuda {

using Result = int;                    // CUresult
using Device = int;                    // CUdevice
using DevicePtr = unsigned long long;  // CUdeviceptr

constexpr Result kSuccess = 0;
constexpr Result kErrorOutOfMemory = 2;
constexpr Result kErrorNotInitialized = 3;
constexpr Result kErrorDeinitialized = 4;
constexpr Result kErrorNoBinaryForGpu = 209;
constexpr Result kErrorUnsupportedPtxVersion = 222;
constexpr Result kErrorNotReady = 600;
constexpr Result kErrorStreamCaptureUnsupported = 900;

constexpr unsigned kMemHostAllocPortable = 1;
constexpr unsigned kMemHostAllocDeviceMap = 2;
constexpr unsigned kEventBlockingSync = 1;
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kEventRecordDefault = 0;
constexpr unsigned kEventRecordExternal = 1;
constexpr unsigned kEventWaitDefault = 0;
constexpr unsigned kStreamNonBlocking = 1;

constexpr unsigned kUserObjectNoDestructorSync = 1;
constexpr unsigned kGraphUserObjectMove = 1;

constexpr int kStreamCaptureStatusActive = 1;
constexpr int kStreamCaptureModeRelaxed = 2;

constexpr int kDeviceAttributeMultiprocessorCount = 16;
constexpr int kDeviceAttributeComputeCapabilityMajor = 75;
constexpr int kDeviceAttributeComputeCapabilityMinor = 76;
constexpr int kDeviceAttributeMaxSharedMemoryPerMultiprocessor = 81;
constexpr int kDeviceAttributeMaxSharedMemoryPerBlockOptin = 97;
constexpr int kFuncAttributeMaxDynamicSharedSizeBytes = 8;
constexpr int kLaunchAttributeProgrammaticStreamSerialization = 6;

constexpr int kTensorMapDataTypeFloat16 = 6;
constexpr int kTensorMapDataTypeBfloat16 = 9;
constexpr int kTensorMapInterleaveNone = 0;
constexpr int kTensorMapSwizzle128b = 3;
constexpr int kTensorMapL2Promotion256b = 3;
constexpr int kTensorMapFloatOobFillNone = 0;

// CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int programmatic_stream_serialization_allowed;
  } value;
};

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned smem_bytes;
  CUstream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

}  // namespace graphsafe_gg::cuda
