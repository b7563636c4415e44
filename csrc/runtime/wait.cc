// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "runtime/call_sites.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<double> g_deadline_s{0.0};

void warn(const Site& site) {
  report_once("grouped_gemm: the host has waited 60 s for group sizes at call site " +
              call_site_name(site.id) +
              "; the GPU may be stuck. Set GG_WAIT_DEADLINE_S to make such a wait an error.");
}

[[noreturn]] void fail(const Site& site, double deadline_s) {
  throw DriverError("grouped_gemm: the wait for group sizes at call site " +
                    call_site_name(site.id) + " must end within GG_WAIT_DEADLINE_S = " +
                    std::to_string(deadline_s) + " s; it did not. The device may be stuck.");
}

}  // namespace

void set_wait_deadline(double seconds) { g_deadline_s.store(seconds); }

void wait_for_event(const Event& event, Site& site) {
  // A sleep ends late by the timer's slack, some 60 us, which a short wait must not pay. A long
  // one sleeps for a fixed share of what it has waited, so that it ends late by that share.
  constexpr auto kSpin = std::chrono::milliseconds(2);
  constexpr int kSleepShare = 64;
  constexpr auto kWarnAfter = std::chrono::seconds(60);
  const double deadline_s = g_deadline_s.load(std::memory_order_relaxed);
  // Another thread's capture must not be disturbed by the queries.
  const RelaxedCaptureMode relaxed(cuda_api());
  const auto begin = Clock::now();
  while (!event.is_done()) {
    const auto waited = Clock::now() - begin;
    if (waited < kSpin) continue;
    if (waited > kWarnAfter) warn(site);
    if (deadline_s > 0 && std::chrono::duration<double>(waited).count() > deadline_s) {
      fail(site, deadline_s);
    }
    std::this_thread::sleep_for(waited / kSleepShare);
  }
  site.waits.add(std::chrono::nanoseconds(Clock::now() - begin).count());
}

}  // namespace graphsafe_gg
