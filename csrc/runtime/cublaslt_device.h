// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// cuBLASLt on one device: handle, side streams and plans, made in the initialize stage when a
// problem first may need them, and never freed.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cublaslt_plan.h"
#include "runtime/fork_join.h"

namespace graphsafe_gg {

class CublasLtDevice {
 public:
  explicit CublasLtDevice(int ordinal) : ordinal_(ordinal) {}

  // Initialize stage only, with the device's context current: it may open the library and
  // allocates. Without a usable library it only records why. Throws OutOfMemory, or DriverError
  // from the driver.
  void prepare(const Problem& problem);

  // The library's version, or why it is not used here.
  std::string state() const;

  // Held from choosing a plan to the last call of a product: plans and side streams serve one
  // thread at a time. Never held while waiting for the GPU, but for the queue's own limits.
  class Access {
   public:
    explicit Access(CublasLtDevice& device) : device_(device), lock_(device.mutex_) {}

    bool has_library() const { return device_.handle_ != nullptr && device_.failure_.empty(); }
    // Null if no initialize stage made one.
    CublasLtPlan* plan(const Problem& problem) const;
    const SideStreams& side_streams() const { return *device_.side_; }

   private:
    CublasLtDevice& device_;
    std::lock_guard<std::mutex> lock_;
  };

 private:
  void open(const CublasLtApi& api);

  const int ordinal_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  const CublasLtApi* api_ = nullptr;
  lt::Handle handle_ = nullptr;
  std::optional<SideStreams> side_;
  std::map<CublasLtKey, CublasLtPlan> plans_;
  std::string failure_;
};

}  // namespace graphsafe_gg
