// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cublaslt_device.h"

#include <algorithm>

#include "runtime/context_guard.h"
#include "runtime/errors.h"
#include "runtime/host_policy.h"

namespace graphsafe_gg {

void CublasLtDevice::open(const CublasLtApi& api) {
  if (handle_ != nullptr) return;
  lt::Handle handle = nullptr;
  check(api, api.create(&handle), "cublasLtCreate", ordinal_);
  handle_ = handle;
  api_ = &api;
}

void CublasLtDevice::prepare(const Problem& problem) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.empty()) return;
  const int bucket = std::min(row_bucket(problem.m), kMaxRowBucket);
  const CublasLtKey key(problem);
  auto plan = plans_.find(key);
  if (plan != plans_.end() && plan->second.has_bucket(bucket)) return;
  const CublasLtApi* api = cublaslt_api();
  if (api == nullptr) return;
  // Another thread's capture must not be disturbed by what the library allocates or loads.
  const RelaxedCaptureMode relaxed(cuda_api());
  if (!side_) side_.emplace(ordinal_);
  try {
    open(*api);
    if (plan == plans_.end()) {
      plan = plans_.try_emplace(key, *api_, handle_, key, ordinal_).first;
    }
    plan->second.prepare(bucket);
  } catch (const DriverError& error) {
    // Such as a library that is older than the GPU.
    failure_ = std::string("not usable: ") + error.what();
    report_once("the project's own kernels run instead of cuBLASLt: " + failure_);
  }
}

std::string CublasLtDevice::state() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_.empty() ? cublaslt_state() : failure_;
}

CublasLtPlan* CublasLtDevice::Access::plan(const Problem& problem) const {
  const auto found = device_.plans_.find(CublasLtKey(problem));
  return found == device_.plans_.end() ? nullptr : &found->second;
}

}  // namespace graphsafe_gg
