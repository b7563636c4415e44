// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_state.h"

#include <array>
#include <mutex>
#include <string>

#include "runtime/check.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"
#include "runtime/kernel_library.h"

namespace graphsafe_gg {
namespace {

constexpr size_t kMaxDevices = 256;

struct Registry {
  std::mutex mutex;  // held while a state is made
  std::array<std::atomic<DeviceState*>, kMaxDevices> states{};
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

std::atomic<DeviceState*>& entry(int ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= kMaxDevices) {
    throw DriverError("the device ordinal must be below 256; got " + std::to_string(ordinal) + ".");
  }
  return registry().states[static_cast<size_t>(ordinal)];
}

int attribute(const CudaApi& api, int which, cuda::Device device, int ordinal) {
  int value = 0;
  check(api.device_get_attribute(&value, which, device), "cuDeviceGetAttribute", ordinal);
  return value;
}

}  // namespace

DeviceState& DeviceState::initialize(int ordinal) {
  DeviceState* state = entry(ordinal).load(std::memory_order_acquire);
  if (state != nullptr) return *state;
  std::lock_guard<std::mutex> lock(registry().mutex);
  state = entry(ordinal).load(std::memory_order_acquire);
  if (state != nullptr) return *state;
  state = new DeviceState(ordinal, open(ordinal));
  entry(ordinal).store(state, std::memory_order_release);
  return *state;
}

DeviceState& DeviceState::get(int ordinal) {
  DeviceState* state = entry(ordinal).load(std::memory_order_acquire);
  if (state == nullptr) {
    throw DriverError("device " + std::to_string(ordinal) +
                      " must be initialized before execution; XLA called no initialize stage.");
  }
  return *state;
}

std::vector<DeviceState*> DeviceState::all() {
  std::vector<DeviceState*> states;
  for (auto& candidate : registry().states) {
    DeviceState* state = candidate.load(std::memory_order_acquire);
    if (state != nullptr) states.push_back(state);
  }
  return states;
}

DeviceState::Opened DeviceState::open(int ordinal) {
  const CudaApi& api = cuda_api();
  cuda::Device device = 0;
  check(api.device_get(&device, ordinal), "cuDeviceGet", ordinal);
  Opened opened{};
  check(api.device_primary_ctx_retain(&opened.context, device), "cuDevicePrimaryCtxRetain",
        ordinal);
  opened.traits.arch =
      10 * attribute(api, cuda::kDeviceAttributeComputeCapabilityMajor, device, ordinal) +
      attribute(api, cuda::kDeviceAttributeComputeCapabilityMinor, device, ordinal);
  opened.traits.num_sms =
      attribute(api, cuda::kDeviceAttributeMultiprocessorCount, device, ordinal);
  opened.traits.max_smem_block_bytes =
      attribute(api, cuda::kDeviceAttributeMaxSharedMemoryPerBlockOptin, device, ordinal);
  opened.traits.max_smem_sm_bytes =
      attribute(api, cuda::kDeviceAttributeMaxSharedMemoryPerMultiprocessor, device, ordinal);
  return opened;
}

DeviceState::DeviceState(int ordinal, const Opened& opened)
    : ordinal_(ordinal),
      context_(opened.context),
      traits_(opened.traits),
      sites_(ordinal, opened.context),
      slots_(ordinal),
      size_copies_(ordinal),
      cublaslt_(ordinal) {}

void DeviceState::load_function(const Kernel& kernel, int smem_bytes) {
  {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    if (functions_.count(&kernel) != 0) return;
  }
  const CudaApi& api = cuda_api();
  const ContextGuard guard(api, context_, ordinal_);
  CUfunction function = nullptr;
  check(api.kernel_get_function(&function, load_kernel(kernel, ordinal_)), "cuKernelGetFunction",
        ordinal_);
  if (smem_bytes > 0) {
    check(
        api.func_set_attribute(function, cuda::kFuncAttributeMaxDynamicSharedSizeBytes, smem_bytes),
        "cuFuncSetAttribute", ordinal_);
  }
  std::unique_lock<std::shared_mutex> lock(mutex_);
  functions_[&kernel] = function;
}

CUfunction DeviceState::function(const Kernel& kernel) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto found = functions_.find(&kernel);
  if (found == functions_.end()) {
    throw DriverError(std::string("kernel ") + kernel.symbol +
                      " must be loaded before execution; XLA called no initialize stage.");
  }
  return found->second;
}

}  // namespace graphsafe_gg
