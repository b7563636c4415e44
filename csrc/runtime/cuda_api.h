// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The one table through which every CUDA call goes. Filled from libcuda.so.1 at first use; tests
// put a simulated driver in its place.
#pragma once

#include <string>

#include "runtime/cuda_driver.h"

namespace graphsafe_gg {

// X(member, exported symbol, parameters)
#define GG_CUDA_API(X)                                                                         \
  X(init, "cuInit", (unsigned flags))                                                          \
  X(driver_get_version, "cuDriverGetVersion", (int* version))                                  \
  X(get_error_name, "cuGetErrorName", (cuda::Result error, const char** name))                 \
  X(get_error_string, "cuGetErrorString", (cuda::Result error, const char** text))             \
  X(device_get, "cuDeviceGet", (cuda::Device * device, int ordinal))                           \
  X(device_get_attribute, "cuDeviceGetAttribute", (int* value, int attribute, cuda::Device d)) \
  X(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain", (CUcontext * ctx, cuda::Device d))  \
  X(ctx_get_current, "cuCtxGetCurrent", (CUcontext * ctx))                                     \
  X(ctx_push_current, "cuCtxPushCurrent_v2", (CUcontext ctx))                                  \
  X(ctx_pop_current, "cuCtxPopCurrent_v2", (CUcontext * ctx))                                  \
  X(ctx_synchronize, "cuCtxSynchronize", ())                                                   \
  X(mem_host_alloc, "cuMemHostAlloc", (void** host, size_t size_bytes, unsigned flags))        \
  X(mem_free_host, "cuMemFreeHost", (void* host))                                              \
  X(mem_host_get_device_pointer, "cuMemHostGetDevicePointer_v2",                               \
    (cuda::DevicePtr * device, void* host, unsigned flags))                                    \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2",                                                 \
    (void* host, cuda::DevicePtr device, size_t size_bytes, CUstream stream))                  \
  X(memset_d8_async, "cuMemsetD8Async",                                                        \
    (cuda::DevicePtr device, unsigned char value, size_t size_bytes, CUstream stream))         \
  X(event_create, "cuEventCreate", (CUevent * event, unsigned flags))                          \
  X(event_destroy, "cuEventDestroy_v2", (CUevent event))                                       \
  X(event_record, "cuEventRecord", (CUevent event, CUstream stream))                           \
  X(event_record_with_flags, "cuEventRecordWithFlags",                                         \
    (CUevent event, CUstream stream, unsigned flags))                                          \
  X(event_query, "cuEventQuery", (CUevent event))                                              \
  X(event_synchronize, "cuEventSynchronize", (CUevent event))                                  \
  X(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags))                      \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))                                   \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                              \
  X(stream_wait_event, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))  \
  X(stream_is_capturing, "cuStreamIsCapturing", (CUstream stream, int* status))                \
  X(stream_get_capture_info, "cuStreamGetCaptureInfo_v3",                                      \
    (CUstream stream, int* status, unsigned long long* id, CUgraph* graph,                     \
     const void** dependencies, const void** edges, size_t* num_dependencies))                 \
  X(user_object_create, "cuUserObjectCreate",                                                  \
    (CUuserObject * object, void* pointer, void (*destroy)(void*), unsigned initial_refcount,  \
     unsigned flags))                                                                          \
  X(user_object_release, "cuUserObjectRelease", (CUuserObject object, unsigned count))         \
  X(graph_retain_user_object, "cuGraphRetainUserObject",                                       \
    (CUgraph graph, CUuserObject object, unsigned count, unsigned flags))                      \
  X(thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))     \
  X(library_load_data, "cuLibraryLoadData",                                                    \
    (CUlibrary * library, const void* code, int* jit_options, void** jit_values,               \
     unsigned num_jit_options, int* library_options, void** library_values,                    \
     unsigned num_library_options))                                                            \
  X(library_get_kernel, "cuLibraryGetKernel",                                                  \
    (CUkernel * kernel, CUlibrary library, const char* name))                                  \
  X(kernel_get_function, "cuKernelGetFunction", (CUfunction * function, CUkernel kernel))      \
  X(func_set_attribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value)) \
  X(tensor_map_encode_tiled, "cuTensorMapEncodeTiled",                                         \
    (void* map, int data_type, unsigned rank, void* address, const uint64_t* dims,             \
     const uint64_t* strides, const unsigned* box, const unsigned* element_strides,            \
     int interleave, int swizzle, int l2_promotion, int oob_fill))                             \
  X(launch_kernel, "cuLaunchKernel",                                                           \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
     unsigned block_y, unsigned block_z, unsigned smem_bytes, CUstream stream, void** args,    \
     void** extra))                                                                            \
  X(launch_kernel_ex, "cuLaunchKernelEx",                                                      \
    (const cuda::LaunchConfig* config, CUfunction function, void** args, void** extra))

struct CudaApi {
#define GG_MEMBER(member, symbol, params) cuda::Result(*member) params;
  GG_CUDA_API(GG_MEMBER)
#undef GG_MEMBER
};

// Opens the driver and calls cuInit once. Throws DriverError, naming what is missing, on a machine
// without a usable driver; a later call tries again.
const CudaApi& cuda_api();

// Replaces the table. The table must outlive the process; null goes back to the real driver.
void set_cuda_api_for_testing(const CudaApi* api);

}  // namespace graphsafe_gg
