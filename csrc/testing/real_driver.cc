// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// libcuda for the conformance checks: the calls that the runtime never makes, and gates made of
// host functions that block.
#include <dlfcn.h>

#include <condition_variable>
#include <mutex>

#include "kernels/kernel_blobs.h"
#include "runtime/errors.h"
#include "testing/conformance.h"

namespace graphsafe_gg::testing {
namespace {

using LaunchHostFunc = cuda::Result (*)(CUstream, void (*)(void*), void*);

struct Gates {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t num_closed = 0;  // guarded by mutex
  uint64_t num_opened = 0;  // guarded by mutex: gates up to this number are open
};

struct GateNumber {
  Gates* gates;
  uint64_t number;
};

struct Library {
  GraphApi graphs{};
  LaunchHostFunc launch_host_func = nullptr;
  Gates gates;
};

void wait_at_gate(void* data) {
  const auto* gate = static_cast<GateNumber*>(data);
  std::unique_lock<std::mutex> lock(gate->gates->mutex);
  gate->gates->changed.wait(lock, [&] { return gate->gates->num_opened >= gate->number; });
  delete gate;
}

Library& library() {
  static auto* instance = [] {
    auto* made = new Library;  // leaked: gates may still be queued at exit
    void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto find = [handle](const char* symbol) {
      void* address = handle == nullptr ? nullptr : dlsym(handle, symbol);
      if (address == nullptr) throw DriverError(std::string("libcuda.so.1 lacks ") + symbol);
      return address;
    };
#define GG_LOAD(member, symbol, params) \
  made->graphs.member = reinterpret_cast<decltype(made->graphs.member)>(find(symbol));
    GG_GRAPH_API(GG_LOAD)
#undef GG_LOAD
    made->launch_host_func = reinterpret_cast<LaunchHostFunc>(find("cuLaunchHostFunc"));
    return made;
  }();
  return *instance;
}

int count_devices(const CudaApi& api) {
  int count = 0;
  cuda::Device device = 0;
  while (api.device_get(&device, count) == cuda::kSuccess) ++count;
  return count;
}

}  // namespace

CheckedDriver real_driver() {
  set_cuda_api_for_testing(nullptr);
  const CudaApi& api = cuda_api();
  Library& cuda = library();
  const int num_devices = count_devices(api);
  if (num_devices == 0) throw DriverError("no CUDA device");
  const bool has_kernels = std::string(kernel_toolkit()) != "simulated";
  return {&api,
          &cuda.graphs,
          num_devices,
          has_kernels,
          [&cuda](CUstream stream) {
            std::lock_guard<std::mutex> lock(cuda.gates.mutex);
            cuda.launch_host_func(stream, wait_at_gate,
                                  new GateNumber{&cuda.gates, ++cuda.gates.num_closed});
          },
          [&cuda] {
            std::lock_guard<std::mutex> lock(cuda.gates.mutex);
            cuda.gates.num_opened = cuda.gates.num_closed;
            cuda.gates.changed.notify_all();
          }};
}

}  // namespace graphsafe_gg::testing
