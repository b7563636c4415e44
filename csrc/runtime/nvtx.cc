// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/nvtx.h"

#include <dlfcn.h>

namespace graphsafe_gg {
namespace {

// NVTX 3 by its exported functions (CUDA 13), and its predecessor (CUDA 12). Both hand the ranges
// to the profiler that NVTX_INJECTION64_PATH names, if one does.
const char* const kNames[] = {"libnvtx3interop.so.1", "libnvToolsExt.so.1"};

const NvtxApi* load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  const NvtxApi api = {reinterpret_cast<decltype(NvtxApi::push)>(dlsym(handle, "nvtxRangePushA")),
                       reinterpret_cast<decltype(NvtxApi::pop)>(dlsym(handle, "nvtxRangePop"))};
  if (api.push == nullptr || api.pop == nullptr) return nullptr;
  return new NvtxApi(api);  // leaked: handlers use it until the process ends
}

}  // namespace

bool enable_nvtx(const std::vector<std::string>& directories) {
  std::vector<std::string> prefixes = {""};  // the loader's path
  for (const std::string& directory : directories) prefixes.push_back(directory + "/");
  for (const std::string& prefix : prefixes) {
    for (const char* name : kNames) {
      const NvtxApi* api = load(prefix + name);
      if (api == nullptr) continue;
      g_nvtx.store(api, std::memory_order_release);
      return true;
    }
  }
  return false;
}

}  // namespace graphsafe_gg
