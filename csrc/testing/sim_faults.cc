// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_faults.h"

namespace graphsafe_gg::sim {

int64_t Faults::num_failed() const {
  int64_t total = 0;
  for (const Fault& fault : faults_) total += fault.num_failed;
  return total;
}

std::optional<Result> Faults::next(const char* function, Stage stage, int ordinal) {
  for (Fault& fault : faults_) {
    if (fault.function != function) continue;
    if (fault.stage && *fault.stage != stage) continue;
    if (fault.ordinal && *fault.ordinal != ordinal) continue;
    const bool is_reached = ++fault.num_matches >= fault.nth;
    const bool is_spent = fault.count >= 0 && fault.num_failed >= fault.count;
    if (!is_reached || is_spent) continue;
    ++fault.num_failed;
    return fault.code;
  }
  return std::nullopt;
}

}  // namespace graphsafe_gg::sim
