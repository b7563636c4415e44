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
XLA_FFI_DEFINE_HANDLER(
    kChangeContext, change_context,
    ffi::Ffi::Bind().Ctx<ffi::PlatformStream<CUstream>>().Ctx<ffi::DeviceOrdinal>());

}  // namespace

const std::vector<Registration>& test_targets() {
  static const std::vector<Registration> table = {
      {"test_wait_in_capture", "CUDA", "execute", kWaitInCapture},
      {"test_wait_silently", "CUDA", "execute", kWaitSilently},
      {"test_change_topology", "CUDA", "execute", kChangeTopology},
      {"test_change_context", "CUDA", "execute", kChangeContext},
  };
  return table;
}

}  // namespace graphsafe_gg::testing
