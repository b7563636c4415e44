// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Calls that load code, launch kernels and copy.
#include <cstring>

#include "kernels/kernel_blobs.h"
#include "testing/encoded_map.h"
#include "testing/sim_calls.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {

// The legacy stream would wait for a blocking stream that is being captured.
Result SimDriver::check_implicit(const Stream& stream) {
  if (id_of(stream) != null_streams_.at(stream.ordinal)) return kSuccess;
  for (auto& [id, other] : streams) {
    if (other.ordinal != stream.ordinal || other.capture == 0) continue;
    if (other.flags == kStreamNonBlocking) continue;
    conflict(other.capture);
    return kCaptureImplicit;
  }
  return kSuccess;
}

namespace calls {
namespace {

// Queues the work, or adds it to the graph under capture.
Result submit(Call& call, CUstream stream, Work work) {
  Stream* found = call->find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (found->capture != 0) return call->capture_node(*found, std::move(work));
  if (const Result implicit = call->check_implicit(*found)) return implicit;
  return call->enqueue(*found, std::move(work));
}

// The device of the stream, whose context must be current.
bool enter_on(Call& call, CUstream stream) {
  if (!call.is_open()) return false;
  const Stream* found = call->find_stream(stream);
  const int ordinal = found == nullptr ? -1 : found->ordinal;
  if (!call.enter(ordinal)) return false;
  const int current = call->current_ordinal();
  if (current < 0) {
    call.done(kInvalidContext);
  } else if (found == nullptr || current != ordinal) {
    call.done(kInvalidHandle);
  }
  return call.result() == kSuccess;
}

Result launch(Call& call, const cuda::LaunchConfig& config, CUfunction function, void** args) {
  if (!enter_on(call, config.stream)) return call.result();
  const auto found = call->functions.find(to_id(function));
  if (found == call->functions.end() || found->second.ordinal != call->current_ordinal()) {
    return call.done(kInvalidHandle);
  }
  call.set_detail(found->second.symbol);
  const auto [grid_x, grid_y, grid_z] = config.grid;
  const uint64_t num_threads = uint64_t{config.block[0]} * config.block[1] * config.block[2];
  const bool has_blocks = grid_x != 0 && grid_y != 0 && grid_z != 0;
  if (!has_blocks || num_threads == 0 || num_threads > 1024 || args == nullptr ||
      static_cast<int>(config.smem_bytes) > std::max(found->second.max_smem_bytes, 48 << 10)) {
    return call.done(kInvalidValue);
  }
  KernelLaunch launch{found->second.symbol, find_emulation(found->second.symbol), {}, grid_x};
  for (size_t i = 0; i < launch.emulation->param_bytes.size(); ++i) {
    const auto* value = static_cast<const std::byte*>(args[i]);
    launch.params.emplace_back(value, value + launch.emulation->param_bytes[i]);
  }
  return call.done(submit(call, config.stream, std::move(launch)));
}

bool is_blob(const void* code) {
  for (const KernelBlob& blob : kernel_blobs()) {
    if (blob.begin == code) return true;
  }
  return false;
}

}  // namespace

Result library_load_data(CUlibrary* library, const void* code, int*, void**, unsigned, int*, void**,
                         unsigned) {
  Call call("cuLibraryLoadData");
  if (!call.is_open() || !call.enter(call->current_ordinal())) return call.result();
  if (const Result unsafe = call->check_unsafe()) return call.done(unsafe);
  if (!is_blob(code)) return call.done(kInvalidImage);
  const uint64_t id = call->new_id();
  call->libraries[id] = code;
  *library = to_handle<CUlibrary>(id);
  return kSuccess;
}

Result library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  Call call("cuLibraryGetKernel");
  if (!call.is_open() || !call.enter(call->current_ordinal())) return call.result();
  call.set_detail(name);
  if (call->libraries.count(to_id(library)) == 0) return call.done(kInvalidHandle);
  if (find_emulation(name) == nullptr) return call.done(kNotFound);
  const uint64_t id = call->new_id();
  call->kernels[id] = name;
  *kernel = to_handle<CUkernel>(id);
  return kSuccess;
}

Result kernel_get_function(CUfunction* function, CUkernel kernel) {
  Call call("cuKernelGetFunction");
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  const auto found = call->kernels.find(to_id(kernel));
  if (found == call->kernels.end()) return call.done(kInvalidHandle);
  const uint64_t id = call->new_id();
  call->functions[id] = {found->second, ordinal};
  *function = to_handle<CUfunction>(id);
  return kSuccess;
}

Result func_set_attribute(CUfunction function, int attribute, int value) {
  Call call("cuFuncSetAttribute");
  if (!call.is_open()) return call.result();
  const auto found = call->functions.find(to_id(function));
  if (!call.enter(found == call->functions.end() ? -1 : found->second.ordinal)) {
    return call.result();
  }
  if (found == call->functions.end()) return call.done(kInvalidHandle);
  if (attribute != cuda::kFuncAttributeMaxDynamicSharedSizeBytes || value > kMaxSmemBlockBytes) {
    return call.done(kInvalidValue);
  }
  found->second.max_smem_bytes = value;
  return kSuccess;
}

// What CUDA asks of a map of 16-bit elements that is swizzled over 128 bytes.
Result tensor_map_encode_tiled(void* map, int data_type, unsigned rank, void* address,
                               const uint64_t* dims, const uint64_t* strides, const unsigned* box,
                               const unsigned* element_strides, int, int swizzle, int, int) {
  Call call("cuTensorMapEncodeTiled");
  if (!call.is_open() || !call.enter(call->current_ordinal(), /*is_device_call=*/false)) {
    return call.result();
  }
  const bool is_16_bit =
      data_type == cuda::kTensorMapDataTypeFloat16 || data_type == cuda::kTensorMapDataTypeBfloat16;
  bool is_legal = is_16_bit && swizzle == cuda::kTensorMapSwizzle128b && rank >= 1 && rank <= 5 &&
                  reinterpret_cast<uint64_t>(map) % 64 == 0 &&
                  reinterpret_cast<uint64_t>(address) % 16 == 0 && box[0] * 2 <= 128;
  for (unsigned i = 0; i < rank; ++i) {
    is_legal = is_legal && dims[i] >= 1 && dims[i] <= uint64_t{1} << 32 && box[i] >= 1 &&
               box[i] <= 256 && element_strides[i] == 1;
    if (i + 1 < rank) {
      is_legal = is_legal && strides[i] % 16 == 0 && strides[i] < uint64_t{1} << 40;
    }
  }
  if (!is_legal) return call.done(kInvalidValue);
  EncodedMap encoded{};
  encoded.address = reinterpret_cast<uint64_t>(address);
  encoded.rank = rank;
  encoded.mark = kMapMark;
  encoded.element_bytes = 2;
  for (unsigned i = 0; i < rank; ++i) {
    encoded.dims[i] = dims[i];
    encoded.box[i] = static_cast<uint16_t>(box[i]);
    if (i + 1 < rank) encoded.strides[i] = strides[i];
  }
  std::memcpy(map, &encoded, sizeof(encoded));
  return call.done(kSuccess);
}

Result launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem_bytes,
                     CUstream stream, void** args, void**) {
  Call call("cuLaunchKernel");
  return launch(
      call, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, smem_bytes, stream, nullptr, 0},
      function, args);
}

// Starts when the stream comes to it, which is the latest that is legal.
Result launch_kernel_ex(const cuda::LaunchConfig* config, CUfunction function, void** args,
                        void**) {
  Call call("cuLaunchKernelEx");
  for (unsigned i = 0; i < config->num_attributes; ++i) {
    if (config->attributes[i].id != cuda::kLaunchAttributeProgrammaticStreamSerialization) {
      return call.done(kInvalidValue);
    }
  }
  return launch(call, *config, function, args);
}

// A pageable target is not asynchronous: the call waits, and cannot be captured.
Result memcpy_dtoh_async(void* host, DevicePtr device, size_t size_bytes, CUstream stream) {
  Call call("cuMemcpyDtoHAsync", static_cast<int64_t>(size_bytes));
  if (!enter_on(call, stream)) return call.result();
  Stream* found = call->find_stream(stream);
  call.set_detail(std::to_string(reinterpret_cast<uintptr_t>(host)));
  if (call->memory.pinned_view(host, size_bytes) == nullptr) {
    if (found->capture != 0) return call.done(call->conflict(found->capture));
    call->violate("a copy to pageable memory makes the host wait");
    return call.done(kInvalidValue);
  }
  if (call->memory.device_view(found->ordinal, device, size_bytes) == nullptr) {
    return call.done(kInvalidValue);
  }
  Copy copy;
  copy.to_host = host;
  copy.from = device;
  copy.size_bytes = size_bytes;
  return call.done(submit(call, stream, std::move(copy)));
}

Result memcpy_htod_async(DevicePtr device, const void* host, size_t size_bytes, CUstream stream) {
  Call call("cuMemcpyHtoDAsync", static_cast<int64_t>(size_bytes));
  if (!enter_on(call, stream)) return call.result();
  Copy copy;
  copy.to = device;
  copy.size_bytes = size_bytes;
  if (call->memory.pinned_view(host, size_bytes) != nullptr) {
    copy.from_host = host;
  } else {
    const auto* bytes = static_cast<const std::byte*>(host);
    copy.from_bytes = std::make_shared<std::vector<std::byte>>(bytes, bytes + size_bytes);
  }
  return call.done(submit(call, stream, std::move(copy)));
}

Result memcpy_dtod_async(DevicePtr to, DevicePtr from, size_t size_bytes, CUstream stream) {
  Call call("cuMemcpyDtoDAsync", static_cast<int64_t>(size_bytes));
  if (!enter_on(call, stream)) return call.result();
  Copy copy;
  copy.to = to;
  copy.from = from;
  copy.size_bytes = size_bytes;
  return call.done(submit(call, stream, std::move(copy)));
}

Result memset_d8_async(DevicePtr device, unsigned char value, size_t size_bytes, CUstream stream) {
  Call call("cuMemsetD8Async", static_cast<int64_t>(size_bytes));
  if (!enter_on(call, stream)) return call.result();
  return call.done(submit(call, stream, Memset{device, value, size_bytes}));
}

}  // namespace calls
}  // namespace graphsafe_gg::sim
