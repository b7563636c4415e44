// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What the simulated driver writes down: every call, and every wrong that no return code shows.
#pragma once

#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "testing/sim_types.h"

namespace graphsafe_gg::sim {

struct CallRecord {
  const char* function;  // exported name without its version suffix
  Stage stage;
  int ordinal;  // device of the stream, event or current context; -1 if none
  int thread;   // 0, 1, ... in order of first call
  Result result;
  int64_t size_bytes;  // of allocations and copies; 0 for other calls
  std::string detail;  // symbol of a kernel, host address of a copy
};

// Guarded by the driver's lock.
class CallLog {
 public:
  void add(const char* function, int ordinal, Result result, int64_t size_bytes,
           std::string detail);
  // Counted even while `is_on` is false.
  int64_t count(const std::string& function) const;

  std::vector<CallRecord> records;
  std::vector<std::string> violations;
  bool is_on = true;

 private:
  std::unordered_map<std::thread::id, int> threads_;
  std::unordered_map<std::string, int64_t> counts_;
};

}  // namespace graphsafe_gg::sim
