// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Per-device table of the records that kernels write when sizes are bad: one per call site, in
// mapped memory that is never moved or freed, because captured graphs hold its addresses.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/kernel_args.h"
#include "runtime/pinned_buffer.h"

namespace graphsafe_gg {

class SizeErrors {
 public:
  explicit SizeErrors(int ordinal);

  // Device address of the site's record, reserving one at first. When the table is full, further
  // sites share its last record.
  SizeErrorRecord* device_record(uint64_t site);

  // The site's error, if it has one. It stays recorded.
  std::optional<SizeErrorRecord> peek(uint64_t site);

  struct Found {
    uint64_t site;
    SizeErrorRecord error;
  };
  // Every recorded error (of one site, if given), cleared as it is read.
  std::vector<Found> take(std::optional<uint64_t> site);

  // True once per site.
  bool should_log(uint64_t site);

 private:
  size_t index_of(uint64_t site);
  SizeErrorRecord* host_record(size_t index) const;

  static constexpr size_t kMaxSites = 1024;

  PinnedBuffer records_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, size_t> indices_;   // guarded by mutex_
  std::unordered_map<uint64_t, bool> has_logged_;  // guarded by mutex_
};

}  // namespace graphsafe_gg
