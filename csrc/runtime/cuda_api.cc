// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda_api.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "runtime/check.h"
#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

// cuLibraryLoadData and kernels bound to no context exist since CUDA 12.
constexpr int kMinDriverVersion = 12030;

std::atomic<const CudaApi*> g_api{nullptr};

void load(CudaApi& api) {
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw DriverError(std::string("the CUDA driver must be installed to run on a GPU; opening it "
                                  "failed: ") +
                      dlerror() + ". Install an NVIDIA driver, or run on the CPU back end.");
  }
  const auto find = [handle](const char* symbol) {
    void* address = dlsym(handle, symbol);
    if (address == nullptr) {
      throw DriverError(std::string("the CUDA driver must provide ") + symbol +
                        "; this one does not. Install a driver for CUDA 12.3 or newer.");
    }
    return address;
  };
#define GG_LOAD(member, symbol, params) \
  api.member = reinterpret_cast<decltype(api.member)>(find(symbol));
  GG_CUDA_API(GG_LOAD)
#undef GG_LOAD
  const cuda::Result status = api.init(0);
  if (status != cuda::kSuccess) throw DriverError(describe(api, status, "cuInit", -1));
  int version = 0;
  const cuda::Result version_status = api.driver_get_version(&version);
  if (version_status != cuda::kSuccess || version < kMinDriverVersion) {
    throw DriverError("the CUDA driver must support CUDA 12.3 or newer; got " +
                      std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) +
                      ". Update the driver.");
  }
}

}  // namespace

const CudaApi& cuda_api() {
  const CudaApi* api = g_api.load(std::memory_order_acquire);
  if (api != nullptr) return *api;
  static auto* mutex = new std::mutex;  // leaked: used until the process ends
  static auto* real = new CudaApi{};
  std::lock_guard<std::mutex> lock(*mutex);
  if (g_api.load(std::memory_order_acquire) == nullptr) {
    load(*real);
    g_api.store(real, std::memory_order_release);
  }
  return *g_api.load(std::memory_order_acquire);
}

void set_cuda_api_for_testing(const CudaApi* api) { g_api.store(api, std::memory_order_release); }

}  // namespace graphsafe_gg
