// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Calls about the driver, its devices, contexts and memory.
#include "testing/sim_calls.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::sim::calls {
namespace {

int attribute_value(const Options& options, int attribute) {
  switch (attribute) {
    case cuda::kDeviceAttributeMultiprocessorCount:
      return kNumSms;
    case cuda::kDeviceAttributeComputeCapabilityMajor:
      return options.arch / 10;
    case cuda::kDeviceAttributeComputeCapabilityMinor:
      return options.arch % 10;
    case cuda::kDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      return kMaxSmemSmBytes;
    case cuda::kDeviceAttributeMaxSharedMemoryPerBlockOptin:
      return kMaxSmemBlockBytes;
    default:
      return -1;
  }
}

}  // namespace

Result init(unsigned) {
  Call call("cuInit");
  if (!call.enter(-1)) return call.result();
  return kSuccess;
}

Result driver_get_version(int* version) {
  *version = 13000;
  return kSuccess;
}

Result get_error_name(Result error, const char** name) {
  *name = error_name(error);
  return *name == nullptr ? kInvalidValue : kSuccess;
}

Result get_error_string(Result error, const char** text) {
  *text = error_text(error);
  return *text == nullptr ? kInvalidValue : kSuccess;
}

Result device_get(cuda::Device* device, int ordinal) {
  Call call("cuDeviceGet");
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0 || ordinal >= call->options.num_devices) return call.done(kInvalidDevice);
  *device = ordinal;
  return kSuccess;
}

Result device_get_attribute(int* value, int attribute, cuda::Device device) {
  Call call("cuDeviceGetAttribute");
  if (!call.enter(device)) return call.result();
  *value = attribute_value(call->options, attribute);
  return call.done(*value < 0 ? kInvalidValue : kSuccess);
}

Result device_primary_ctx_retain(CUcontext* ctx, cuda::Device device) {
  Call call("cuDevicePrimaryCtxRetain");
  if (!call.enter(device)) return call.result();
  if (device < 0 || device >= call->options.num_devices) return call.done(kInvalidDevice);
  ++call->num_retained[static_cast<size_t>(device)];
  *ctx = call->context_of(device);
  return kSuccess;
}

Result ctx_get_current(CUcontext* ctx) {
  Call call("cuCtxGetCurrent");
  if (!call.is_open() || !call.enter(call->current_ordinal(), /*is_device_call=*/false)) {
    return call.result();
  }
  *ctx = call->context_of(call->current_ordinal());
  return kSuccess;
}

Result ctx_set_current(CUcontext ctx) {
  Call call("cuCtxSetCurrent");
  if (!call.is_open()) return call.result();
  const int ordinal = ctx == nullptr ? -1 : call->ordinal_of(ctx);
  if (!call.enter(ordinal, /*is_device_call=*/false)) return call.result();
  if (ctx != nullptr && ordinal < 0) return call.done(kInvalidContext);
  std::vector<int>& stack = call->context_stack();
  if (!stack.empty()) stack.pop_back();
  if (ctx != nullptr) stack.push_back(ordinal);
  return kSuccess;
}

Result ctx_push_current(CUcontext ctx) {
  Call call("cuCtxPushCurrent");
  if (!call.is_open()) return call.result();
  const int ordinal = call->ordinal_of(ctx);
  if (!call.enter(ordinal, /*is_device_call=*/false)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  call->context_stack().push_back(ordinal);
  return kSuccess;
}

Result ctx_pop_current(CUcontext* ctx) {
  Call call("cuCtxPopCurrent");
  if (!call.is_open() || !call.enter(call->current_ordinal(), /*is_device_call=*/false)) {
    return call.result();
  }
  std::vector<int>& stack = call->context_stack();
  if (stack.empty()) return call.done(kInvalidContext);
  *ctx = call->context_of(stack.back());
  stack.pop_back();
  return kSuccess;
}

Result ctx_synchronize() {
  Call call("cuCtxSynchronize");
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  if (const Result unsafe = call->check_unsafe()) return call.done(unsafe);
  // Whatever the mode: a capture belongs to the context that is to be waited for.
  if (const Result conflict = call->conflict_with_device(ordinal)) return call.done(conflict);
  return call.done(call->wait(call.lock(), ordinal, [&] { return call->is_idle(ordinal); }));
}

Result mem_host_alloc(void** host, size_t size_bytes, unsigned) {
  Call call("cuMemHostAlloc", static_cast<int64_t>(size_bytes));
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  if (const Result unsafe = call->check_unsafe()) return call.done(unsafe);
  if (size_bytes == 0) return call.done(kInvalidValue);
  if (call->memory.pinned_bytes() + size_bytes > call->options.max_pinned_bytes) {
    return call.done(kOutOfMemory);
  }
  *host = call->memory.allocate_pinned(size_bytes);
  return call.done(*host == nullptr ? kOutOfMemory : kSuccess);
}

Result mem_free_host(void* host) {
  Call call("cuMemFreeHost");
  if (!call.is_open()) return call.result();
  if (!call.enter(call->current_ordinal())) return call.result();
  if (const Result unsafe = call->check_unsafe()) return call.done(unsafe);
  return call.done(call->memory.free_pinned(host) ? kSuccess : kInvalidValue);
}

Result mem_host_get_device_pointer(DevicePtr* device, void* host, unsigned flags) {
  Call call("cuMemHostGetDevicePointer");
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  *device = flags == 0 ? call->memory.mapped_address(host) : 0;
  return call.done(*device == 0 ? kInvalidValue : kSuccess);
}

Result mem_alloc(DevicePtr* device, size_t size_bytes) {
  Call call("cuMemAlloc", static_cast<int64_t>(size_bytes));
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  if (const Result unsafe = call->check_unsafe()) return call.done(unsafe);
  if (size_bytes == 0) return call.done(kInvalidValue);
  *device = call->memory.allocate_device(ordinal, size_bytes);
  return call.done(*device == 0 ? kOutOfMemory : kSuccess);
}

Result mem_free(DevicePtr device) {
  Call call("cuMemFree");
  if (!call.is_open()) return call.result();
  if (!call.enter(call->memory.ordinal_of(device))) return call.result();
  if (const Result unsafe = call->check_unsafe()) return call.done(unsafe);
  return call.done(call->memory.free_device(device) ? kSuccess : kInvalidValue);
}

}  // namespace graphsafe_gg::sim::calls
