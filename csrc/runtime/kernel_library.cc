// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_library.h"

#include <mutex>
#include <string>
#include <unordered_map>

#include "kernels/kernel_blobs.h"
#include "runtime/check.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

struct Libraries {
  std::mutex mutex;
  std::unordered_map<std::string, CUlibrary> loaded;  // guarded by mutex
};

Libraries& libraries() {
  static auto* instance = new Libraries;  // leaked: code must outlive every graph
  return *instance;
}

CUlibrary load_library(const char* name, int ordinal) {
  std::lock_guard<std::mutex> lock(libraries().mutex);
  const auto found = libraries().loaded.find(name);
  if (found != libraries().loaded.end()) return found->second;
  for (const KernelBlob& blob : kernel_blobs()) {
    if (std::string(blob.library) != name) continue;
    const CudaApi& api = cuda_api();
    const RelaxedCaptureMode relaxed(api);
    CUlibrary library = nullptr;
    const cuda::Result status =
        api.library_load_data(&library, blob.begin, nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (status == cuda::kErrorNoBinaryForGpu || status == cuda::kErrorUnsupportedPtxVersion) {
      throw Unimplemented("grouped_gemm: the driver must accept kernels of CUDA " +
                          std::string(kernel_toolkit()) + "; " +
                          describe(api, status, "cuLibraryLoadData", ordinal) +
                          ". Update the driver, or build with its toolkit.");
    }
    check(status, "cuLibraryLoadData", ordinal);
    libraries().loaded.emplace(name, library);
    return library;
  }
  throw Unimplemented(
      "grouped_gemm: this build has no CUDA kernels. Build the package where nvcc is found "
      "(-DGG_CUDA=ON), or run on the CPU back end.");
}

}  // namespace

CUkernel load_kernel(const Kernel& kernel, int ordinal) {
  CUlibrary library = load_library(kernel.library, ordinal);
  CUkernel handle = nullptr;
  check(cuda_api().library_get_kernel(&handle, library, kernel.symbol), "cuLibraryGetKernel",
        ordinal);
  return handle;
}

}  // namespace graphsafe_gg
