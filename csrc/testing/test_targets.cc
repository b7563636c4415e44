// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/test_targets.h"

#include <atomic>

#include "runtime/cuda_api.h"
#include "runtime/errors.h"
#include "testing/sim_types.h"

namespace graphsafe_gg::testing {
namespace {

namespace ffi = xla::ffi;

ffi::Error to_error(cuda::Result status, const char* call) {
  if (status == cuda::kSuccess) return ffi::Error::Success();
  return ffi::Error::Internal(std::string(call) + ": " + sim::error_name(status));
}

// Waits for the stream's work although it claims to be capturable.
ffi::Error wait_in_capture(CUstream stream, ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  CUevent event = nullptr;
  cuda_api().event_create(&event, cuda::kEventDisableTiming);
  cuda_api().event_record(event, stream);
  const cuda::Result status = cuda_api().event_synchronize(event);
  cuda_api().event_destroy(event);
  return to_error(status, "cuEventSynchronize");
}

// The same, and says nothing of the failure.
ffi::Error wait_silently(CUstream stream, ffi::AnyBuffer in, ffi::Result<ffi::AnyBuffer> out) {
  static_cast<void>(wait_in_capture(stream, in, out));
  return ffi::Error::Success();
}

// One node more at each trace.
ffi::Error change_topology(CUstream stream, ffi::AnyBuffer in, ffi::Result<ffi::AnyBuffer>) {
  static std::atomic<int> num_calls{0};
  static void* host = [] {
    void* memory = nullptr;
    cuda_api().mem_host_alloc(&memory, 4096, 0);
    return memory;
  }();
  const auto from = reinterpret_cast<cuda::DevicePtr>(in.untyped_data());
  cuda::Result status = cuda::kSuccess;
  for (int i = num_calls.fetch_add(1); i >= 0 && status == cuda::kSuccess; --i) {
    status = cuda_api().memcpy_dtoh_async(host, from, 4, stream);
  }
  return to_error(status, "cuMemcpyDtoHAsync");
}

cuda::DevicePtr address_of(const ffi::AnyBuffer& buffer) {
  return reinterpret_cast<cuda::DevicePtr>(buffer.untyped_data());
}

// Frees the target of a copy that is still pending.
ffi::Error free_under_copy(CUstream stream, ffi::AnyBuffer in, ffi::Result<ffi::AnyBuffer>) {
  void* host = nullptr;
  cuda_api().mem_host_alloc(&host, 4096, 0);
  const cuda::Result status = cuda_api().memcpy_dtoh_async(host, address_of(in), 4, stream);
  cuda_api().mem_free_host(host);
  return to_error(status, "cuMemcpyDtoHAsync");
}

// Copies to memory that is not page-locked.
ffi::Error copy_to_pageable(CUstream stream, ffi::AnyBuffer in, ffi::Result<ffi::AnyBuffer>) {
  static int host = 0;
  return to_error(cuda_api().memcpy_dtoh_async(&host, address_of(in), 4, stream),
                  "cuMemcpyDtoHAsync");
}

ffi::Error use_destroyed_event(CUstream stream, ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  CUevent event = nullptr;
  cuda_api().event_create(&event, cuda::kEventDisableTiming);
  cuda_api().event_destroy(event);
  return to_error(cuda_api().event_record(event, stream), "cuEventRecord");
}

// Lets the graph retain an object whose destructor calls the driver.
ffi::Error call_in_destructor(CUstream stream, ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer>) {
  int status = 0;
  CUgraph graph = nullptr;
  cuda_api().stream_get_capture_info(stream, &status, nullptr, &graph, nullptr, nullptr, nullptr);
  if (graph == nullptr) return ffi::Error::Success();
  CUuserObject object = nullptr;
  cuda_api().user_object_create(
      &object, nullptr, [](void*) { static_cast<void>(cuda_api().ctx_synchronize()); }, 1,
      cuda::kUserObjectNoDestructorSync);
  return to_error(cuda_api().graph_retain_user_object(graph, object, 1, cuda::kGraphUserObjectMove),
                  "cuGraphRetainUserObject");
}

// Makes another context current and leaves it so.
ffi::Error change_context(CUstream, int32_t ordinal) {
  CUcontext context = nullptr;
  cuda_api().device_primary_ctx_retain(&context, ordinal == 0 ? 1 : 0);
  return to_error(cuda_api().ctx_push_current(context), "cuCtxPushCurrent");
}

auto bind_copy() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<CUstream>>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>();
}

constexpr auto kGraphSafe = {ffi::Traits::kCmdBufferCompatible};
XLA_FFI_DEFINE_HANDLER(kWaitInCapture, wait_in_capture, bind_copy(), kGraphSafe);
XLA_FFI_DEFINE_HANDLER(kWaitSilently, wait_silently, bind_copy(), kGraphSafe);
XLA_FFI_DEFINE_HANDLER(kChangeTopology, change_topology, bind_copy(), kGraphSafe);
XLA_FFI_DEFINE_HANDLER(kFreeUnderCopy, free_under_copy, bind_copy());
XLA_FFI_DEFINE_HANDLER(kCopyToPageable, copy_to_pageable, bind_copy());
XLA_FFI_DEFINE_HANDLER(kUseDestroyedEvent, use_destroyed_event, bind_copy());
XLA_FFI_DEFINE_HANDLER(kCallInDestructor, call_in_destructor, bind_copy(), kGraphSafe);
XLA_FFI_DEFINE_HANDLER(
    kChangeContext, change_context,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<CUstream>>().Ctx<ffi::DeviceOrdinal>());

}  // namespace

const std::vector<Registration>& test_targets() {
  static const std::vector<Registration> table = {
      {"test_wait_in_capture", "CUDA", "execute", kWaitInCapture},
      {"test_wait_silently", "CUDA", "execute", kWaitSilently},
      {"test_change_topology", "CUDA", "execute", kChangeTopology},
      {"test_free_under_copy", "CUDA", "execute", kFreeUnderCopy},
      {"test_copy_to_pageable", "CUDA", "execute", kCopyToPageable},
      {"test_use_destroyed_event", "CUDA", "execute", kUseDestroyedEvent},
      {"test_call_in_destructor", "CUDA", "execute", kCallInDestructor},
      {"test_change_context", "CUDA", "execute", kChangeContext},
  };
  return table;
}

}  // namespace graphsafe_gg::testing
