// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sites.h"

#include <algorithm>
#include <utility>

#include "runtime/context_guard.h"

namespace graphsafe_gg {

const char* to_string(Fallback reason) {
  switch (reason) {
    case Fallback::kNone:
      return "none";
    case Fallback::kNoTicket:
      return "no ticket";
    case Fallback::kNotFollowed:
      return "ticket not followed";
    case Fallback::kNoSlot:
      return "no slot";
    case Fallback::kTorn:
      return "slot rewritten";
    case Fallback::kSuspect:
      return "copied sizes suspect";
    case Fallback::kTracedIndex:
      return "traced group_offset or layer";
  }
  return "unknown";
}

void WaitCounters::add(int64_t waited_ns) {
  count.fetch_add(1, std::memory_order_relaxed);
  total_ns.fetch_add(waited_ns, std::memory_order_relaxed);
  int64_t largest = largest_ns.load(std::memory_order_relaxed);
  while (waited_ns > largest && !largest_ns.compare_exchange_weak(largest, waited_ns)) {
  }
}

// The kernel writes kind last, behind a system-wide fence.
std::optional<SizeErrorRecord> Site::error() const {
  if (__atomic_load_n(&host_record->error.kind, __ATOMIC_ACQUIRE) == kNoSizeError) {
    return std::nullopt;
  }
  return host_record->error;
}

void Site::clear_error() {
  __atomic_store_n(&host_record->error.kind, uint32_t{kNoSizeError}, __ATOMIC_RELEASE);
}

uint64_t Site::num_guard_trips() const {
  return __atomic_load_n(&host_record->guard_trips, __ATOMIC_RELAXED);
}

SiteTable::SiteTable(int ordinal, CUcontext context) : ordinal_(ordinal), context_(context) {
  add_slab();
}

void SiteTable::add_slab() {
  const ContextGuard guard(cuda_api(), context_, ordinal_);
  slabs_.emplace_back(kSlabRecords * sizeof(SiteRecord), ordinal_);
}

Site& SiteTable::at(uint64_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sites_.find(id);
  if (found != sites_.end()) return *found->second;
  if (sites_.size() == slabs_.size() * kSlabRecords) add_slab();
  const size_t index = sites_.size() % kSlabRecords;
  auto site = std::make_unique<Site>();
  site->id = id;
  site->device_record = reinterpret_cast<SiteRecord*>(slabs_.back().device()) + index;
  site->host_record = static_cast<SiteRecord*>(slabs_.back().host()) + index;
  return *sites_.emplace(id, std::move(site)).first->second;
}

size_t SiteTable::pinned_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return slabs_.size() * kSlabRecords * sizeof(SiteRecord);
}

std::vector<Site*> SiteTable::all() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Site*> sites;
  sites.reserve(sites_.size());
  for (const auto& [id, site] : sites_) sites.push_back(site.get());
  std::sort(sites.begin(), sites.end(), [](Site* a, Site* b) { return a->id < b->id; });
  return sites;
}

}  // namespace graphsafe_gg
