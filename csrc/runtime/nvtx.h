// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// NVTX ranges for profilers, from a library that is opened on request. Off, a range costs one load.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace graphsafe_gg {

struct NvtxApi {
  int (*push)(const char* name);  // nvtxRangePushA
  int (*pop)();                   // nvtxRangePop
};

inline std::atomic<const NvtxApi*> g_nvtx{nullptr};  // null while ranges are off

// Switches ranges on for good, with the first library that opens on the loader's path or in the
// directories. False if none does.
bool enable_nvtx(const std::vector<std::string>& directories);

// On this thread, for its own lifetime. The name is copied.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) noexcept : api_(g_nvtx.load(std::memory_order_acquire)) {
    if (api_ != nullptr) api_->push(name);
  }
  ~NvtxRange() {
    if (api_ != nullptr) api_->pop();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  const NvtxApi* const api_;
};

}  // namespace graphsafe_gg
