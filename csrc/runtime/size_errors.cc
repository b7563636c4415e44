// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/size_errors.h"

#include <algorithm>
#include <utility>

namespace graphsafe_gg {

SizeErrors::SizeErrors(int ordinal) : records_(kMaxSites * sizeof(SizeErrorRecord), ordinal) {}

size_t SizeErrors::index_of(uint64_t site) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [entry, is_new] = indices_.try_emplace(site, indices_.size());
  if (is_new) entry->second = std::min(entry->second, kMaxSites - 1);
  return entry->second;
}

SizeErrorRecord* SizeErrors::host_record(size_t index) const {
  return static_cast<SizeErrorRecord*>(records_.host()) + index;
}

SizeErrorRecord* SizeErrors::device_record(uint64_t site) {
  return reinterpret_cast<SizeErrorRecord*>(records_.device()) + index_of(site);
}

std::optional<SizeErrorRecord> SizeErrors::peek(uint64_t site) {
  SizeErrorRecord* record = host_record(index_of(site));
  // The kernel writes kind last, behind a system-wide fence.
  if (__atomic_load_n(&record->kind, __ATOMIC_ACQUIRE) == kNoSizeError) return std::nullopt;
  return *record;
}

std::vector<SizeErrors::Found> SizeErrors::take(std::optional<uint64_t> site) {
  std::vector<uint64_t> sites;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [known, index] : indices_) {
      if (!site || *site == known) sites.push_back(known);
    }
  }
  std::sort(sites.begin(), sites.end());
  std::vector<Found> found;
  for (const uint64_t known : sites) {
    const auto error = peek(known);
    if (!error) continue;
    found.push_back({known, *error});
    __atomic_store_n(&host_record(index_of(known))->kind, uint32_t{kNoSizeError},
                     __ATOMIC_RELEASE);
  }
  return found;
}

bool SizeErrors::should_log(uint64_t site) {
  std::lock_guard<std::mutex> lock(mutex_);
  return !std::exchange(has_logged_[site], true);
}

}  // namespace graphsafe_gg
