// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What one device needs: context, traits, loaded kernels, call sites, slots, counters.
// Made in the initialize stage, keyed by ordinal, leaked on purpose: captured graphs and late
// frames may still use it while the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "kernels/config.h"
#include "kernels/dispatch.h"
#include "runtime/cublaslt_device.h"
#include "runtime/sites.h"
#include "runtime/size_copy.h"
#include "runtime/slots.h"

namespace graphsafe_gg {

struct DeviceCounters {
  std::atomic<int64_t> launches{0};  // kernels launched or captured; a replay adds none
  std::atomic<int64_t> eager_copies{0};
  std::atomic<int64_t> captured_copies{0};
};

class DeviceState {
 public:
  // Creates the state at first. Initialize stage only: it allocates.
  static DeviceState& initialize(int ordinal);
  // For the execute stage. Throws DriverError if initialize never ran on this device.
  static DeviceState& get(int ordinal);
  // Ordinals that have a state.
  static std::vector<DeviceState*> all();

  int ordinal() const { return ordinal_; }
  CUcontext context() const { return context_; }
  const DeviceTraits& traits() const { return traits_; }
  SiteTable& sites() { return sites_; }
  SlotTable& slots() { return slots_; }
  SizeCopyPool& size_copies() { return size_copies_; }
  CublasLtDevice& cublaslt() { return cublaslt_; }
  DeviceCounters& counters() { return counters_; }

  // Loads the kernel and raises its shared-memory limit. Initialize stage only.
  void load_function(const Kernel& kernel, int smem_bytes);
  // For the execute stage. Throws DriverError if the kernel was never loaded here.
  CUfunction function(const Kernel& kernel) const;

 private:
  struct Opened {
    CUcontext context;
    DeviceTraits traits;
  };
  static Opened open(int ordinal);
  DeviceState(int ordinal, const Opened& opened);

  const int ordinal_;
  const CUcontext context_;
  const DeviceTraits traits_;
  SiteTable sites_;
  SlotTable slots_;
  SizeCopyPool size_copies_;
  CublasLtDevice cublaslt_;
  DeviceCounters counters_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<const Kernel*, CUfunction> functions_;  // guarded by mutex_
};

}  // namespace graphsafe_gg
