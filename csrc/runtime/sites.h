// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Per-device table of call sites: the record that kernels write when sizes are bad, and counters.
// Records lie in mapped memory that is never moved or freed, because captured graphs hold its
// addresses.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/kernel_args.h"
#include "runtime/host_policy.h"
#include "runtime/pinned_buffer.h"

namespace graphsafe_gg {

// Why a call that could have used an early copy made its own.
enum class Fallback : uint8_t {
  kNone,
  kNoTicket,     // mode async without a copy to wait for
  kNotFollowed,  // the ticket is a loop carry, branch result, residual or argument
  kNoSlot,       // slots are used up, or XLA moved the ticket
  kTorn,         // the slot was rewritten while it was read
  kSuspect,      // the copied sizes are bad: checked against the operand before raising
  kTracedIndex,  // a traced group_offset or layer: copied at the call, to be checked
};
constexpr size_t kNumFallbacks = 7;
const char* to_string(Fallback reason);

struct WaitCounters {
  std::atomic<int64_t> count{0};
  std::atomic<int64_t> total_ns{0};
  std::atomic<int64_t> largest_ns{0};

  void add(int64_t waited_ns);
};

struct Site {
  uint64_t id = 0;
  SiteRecord* device_record = nullptr;  // device address
  SiteRecord* host_record = nullptr;
  std::atomic<int64_t> executions{0};  // initialize calls: one a run of the program
  std::atomic<int64_t> eager_calls{0};
  std::atomic<int64_t> captured_calls{0};
  WaitCounters waits;
  std::array<std::atomic<int64_t>, kNumFallbacks> fallbacks{};
  std::array<std::atomic<int64_t>, kNumHostPaths> host_paths{};
  std::atomic<bool> has_logged{false};

  // The error a kernel recorded, if any. It stays recorded until clear.
  std::optional<SizeErrorRecord> error() const;
  void clear_error();
  uint64_t num_guard_trips() const;
  void count(Fallback reason) {
    fallbacks[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }
  void count(HostPath path) {
    host_paths[static_cast<size_t>(path)].fetch_add(1, std::memory_order_relaxed);
  }
};

class SiteTable {
 public:
  SiteTable(int ordinal, CUcontext context);

  // Enters the site at first. References stay valid.
  Site& at(uint64_t id);
  // In order of id.
  std::vector<Site*> all() const;
  size_t pinned_bytes() const;

 private:
  void add_slab();

  static constexpr size_t kSlabRecords = 1024;

  const int ordinal_;
  const CUcontext context_;
  mutable std::mutex mutex_;  // guards all below
  std::vector<PinnedBuffer> slabs_;
  std::unordered_map<uint64_t, std::unique_ptr<Site>> sites_;
};

}  // namespace graphsafe_gg
