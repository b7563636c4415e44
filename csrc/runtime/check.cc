// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/check.h"

#include "runtime/errors.h"

namespace graphsafe_gg {

std::string describe(const CudaApi& api, cuda::Result status, const char* call, int ordinal) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(status, &name) != cuda::kSuccess || name == nullptr) name = "unknown";
  if (api.get_error_string(status, &text) != cuda::kSuccess || text == nullptr) text = "unknown";
  std::string message = std::string(call) + " failed";
  if (ordinal >= 0) message += " on device " + std::to_string(ordinal);
  return message + ": " + name + " (" + std::to_string(status) + "): " + text;
}

void check(cuda::Result status, const char* call, int ordinal) {
  if (status == cuda::kSuccess) return;
  const std::string message = describe(cuda_api(), status, call, ordinal);
  if (status == cuda::kErrorOutOfMemory) throw OutOfMemory(message);
  throw DriverError(message);
}

void check_noexcept(cuda::Result status, const char* call, int ordinal) noexcept {
  if (status == cuda::kSuccess || status == cuda::kErrorDeinitialized) return;
  try {
    report_once(describe(cuda_api(), status, call, ordinal));
  } catch (...) {
    report_once("a CUDA error could not be described");
  }
}

}  // namespace graphsafe_gg
