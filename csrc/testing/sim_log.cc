// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_log.h"

#include <utility>

namespace graphsafe_gg::sim {

void CallLog::add(const char* function, int ordinal, Result result, int64_t size_bytes,
                  std::string detail) {
  ++counts_[function];
  if (!is_on) return;
  const auto thread =
      threads_.try_emplace(std::this_thread::get_id(), static_cast<int>(threads_.size()));
  records.push_back({function, current_stage(), ordinal, thread.first->second, result, size_bytes,
                     std::move(detail)});
}

int64_t CallLog::count(const std::string& function) const {
  const auto found = counts_.find(function);
  return found == counts_.end() ? 0 : found->second;
}

}  // namespace graphsafe_gg::sim
