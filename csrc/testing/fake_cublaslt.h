// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// cuBLASLt on the simulated driver: it multiplies, records its calls and the stage they came in,
// fails on request, and holds its caller to the rules that the real one cannot report.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cublaslt_api.h"
#include "testing/sim_types.h"

namespace graphsafe_gg::testing {

struct LtOptions {
  size_t version = 130002;
  int64_t num_steps = 1;                  // simulated time of a GEMM
  int num_algorithms = 3;                 // offered to each query
  int64_t refused_rows = 0;               // no algorithm's check passes for so many rows; 0: none
  size_t workspace_bytes = 0;             // that the first algorithm asks for
  lt::Status first_state = lt::kSuccess;  // of the first algorithm
};

// One at a time; the table that the runtime calls is constant.
class FakeCublasLt {
 public:
  explicit FakeCublasLt(const LtOptions& options) : options(options) {}

  static void install(const LtOptions& options);
  static void remove();
  static FakeCublasLt& current();

  struct Failure {
    std::string function;
    lt::Status status;
    int64_t nth;  // matching call that fails, counted from 1; later ones succeed
  };

  // Logs the call; the status it is to return.
  lt::Status enter(const char* function);
  void violate(const std::string& text);

  const LtOptions options;
  std::atomic<bool> has_kernel{false};
  std::mutex mutex;  // guards all below
  std::vector<std::pair<std::string, sim::Stage>> calls;
  std::set<CUstream> streams;  // of GEMMs
  std::vector<Failure> failures;
  std::vector<std::string> violations;
  int64_t num_live = 0;  // descriptors, layouts and preferences
};

}  // namespace graphsafe_gg::testing
