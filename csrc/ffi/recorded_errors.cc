// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "ffi/handlers.h"
#include "runtime/group_sizes.h"

namespace graphsafe_gg {
namespace {

std::atomic<OnBadSizes> g_on_bad_sizes{OnBadSizes::kLog};

}  // namespace

void set_on_bad_sizes(OnBadSizes policy) {
  g_on_bad_sizes.store(policy, std::memory_order_relaxed);
}

void meet_recorded_error(Site& site) {
  const auto error = site.error();
  if (!error) return;
  const OnBadSizes policy = g_on_bad_sizes.load(std::memory_order_relaxed);
  if (policy == OnBadSizes::kRaise) {
    site.clear_error();
    throw InvalidArgument(describe_size_error(*error, site.id));
  }
  if (policy == OnBadSizes::kLog && !site.has_logged.exchange(true)) {
    report_once(describe_size_error(*error, site.id));
  }
}

}  // namespace graphsafe_gg
