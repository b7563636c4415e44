// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Failures that a test asks for: the n-th matching call returns a code and does nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "testing/sim_types.h"

namespace graphsafe_gg::sim {

struct Fault {
  std::string function;  // exported name without its version suffix
  Result code;
  int64_t nth = 1;    // first matching call that fails, counted from 1
  int64_t count = 1;  // how many fail from there on; negative: all
  std::optional<Stage> stage;
  std::optional<int> ordinal;

  int64_t num_matches = 0;
  int64_t num_failed = 0;
};

// A call that a test holds before it does anything, to interleave threads as it likes.
struct Pause {
  std::string function;
  std::optional<Stage> stage;
  bool is_reached = false;
  bool is_over = false;
};

// Guarded by the driver's lock.
class Faults {
 public:
  void add(const Fault& fault) { faults_.push_back(fault); }
  void clear() { faults_.clear(); }
  // Calls that have failed because of a fault, since the last clear.
  int64_t num_failed() const;
  // The code to return, if this call is to fail.
  std::optional<Result> next(const char* function, Stage stage, int ordinal);

 private:
  std::vector<Fault> faults_;
};

}  // namespace graphsafe_gg::sim
