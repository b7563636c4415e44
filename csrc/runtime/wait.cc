// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "runtime/call_sites.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<double> g_deadline_s{0.0};
std::atomic<double> g_warn_after_s{60.0};

void warn(const Site& site, double warn_after_s) {
  report_once("grouped_gemm: the host has waited " + std::to_string(std::lround(warn_after_s)) +
              " s for group sizes at call site " + call_site_name(site.id) +
              "; the GPU may be stuck. Set GG_WAIT_DEADLINE_S to make such a wait an error.");
}

[[noreturn]] void fail(const Site& site, double deadline_s) {
  throw DriverError("grouped_gemm: the wait for group sizes at call site " +
                    call_site_name(site.id) + " must end within GG_WAIT_DEADLINE_S = " +
                    std::to_string(deadline_s) + " s; it did not. The device may be stuck.");
}

}  // namespace

void set_wait_deadline(double seconds) { g_deadline_s.store(seconds); }

void set_wait_warning_for_testing(double seconds) { g_warn_after_s.store(seconds); }

void wait_for_event(const Event& event, Site& site) {
  // A sleep ends late by the timer's slack, some 60 us, which a short wait must not pay. A long
  // one sleeps for a fixed share of what it has waited, so that it ends late by that share.
  constexpr auto kSpin = std::chrono::milliseconds(2);
  constexpr int kSleepShare = 64;
  const double deadline_s = g_deadline_s.load(std::memory_order_relaxed);
  const double warn_after_s = g_warn_after_s.load(std::memory_order_relaxed);
  // Another thread's capture must not be disturbed by the queries.
  const RelaxedCaptureMode relaxed(cuda_api());
  const auto begin = Clock::now();
  while (!event.is_done()) {
    const auto waited = Clock::now() - begin;
    if (waited < kSpin) continue;
    const double waited_s = std::chrono::duration<double>(waited).count();
    if (waited_s > warn_after_s) warn(site, warn_after_s);
    if (deadline_s > 0 && waited_s > deadline_s) fail(site, deadline_s);
    std::this_thread::sleep_for(waited / kSleepShare);
  }
  site.waits.add(std::chrono::nanoseconds(Clock::now() - begin).count());
}

}  // namespace graphsafe_gg
