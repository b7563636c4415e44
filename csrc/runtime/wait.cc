// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/wait.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/context_guard.h"

namespace graphsafe_gg {

void wait_for_event(const Event& event, DeviceCounters& counters) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(200);
  constexpr auto kLongestSleep = std::chrono::microseconds(100);
  const RelaxedCaptureMode relaxed(cuda_api());
  const auto begin = Clock::now();
  auto sleep = std::chrono::microseconds(5);
  while (!event.is_done()) {
    if (Clock::now() - begin < kSpin) continue;
    std::this_thread::sleep_for(sleep);
    sleep = std::min(2 * sleep, kLongestSleep);
  }
  const auto waited = std::chrono::nanoseconds(Clock::now() - begin).count();
  counters.host_waits.fetch_add(1, std::memory_order_relaxed);
  counters.host_wait_ns.fetch_add(waited, std::memory_order_relaxed);
  int64_t largest = counters.host_wait_max_ns.load(std::memory_order_relaxed);
  while (waited > largest && !counters.host_wait_max_ns.compare_exchange_weak(largest, waited)) {
  }
}

}  // namespace graphsafe_gg
