// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Which thread of a cluster runs next, and when what is asynchronous happens: drawn from a seed,
// between as late as legal and at once. The lanes of a warp run in any order, but none is left
// behind while another warp goes on: kernels rely on warps that stay together.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace graphsafe_gg::emulation {

struct Thread;
struct Warp;

// Seeds that are equal modulo this order warps and asynchronous work by the same policy.
constexpr uint64_t kNumPolicies = 9;

// What the device code did wrong.
class EmulationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t draw();
  bool one_in(uint64_t count) { return draw() % count == 0; }

 private:
  uint64_t state_;
};

// What a suspended thread waits for, for the report of a deadlock.
struct Waiting {
  const char* what = "nothing";
  uint32_t address = 0;
  uint32_t parity = 0;
};

using Waiters = std::vector<Thread*>;

class Scheduler {
 public:
  explicit Scheduler(uint64_t seed);

  // Runs the threads to their ends. Throws EmulationError.
  void run(const std::vector<Thread*>& threads);

  // For the running thread.
  static Thread& current();
  void wait_in(Waiters& waiters, Waiting waiting);
  // Where all lanes of a warp come by: now and then they let other warps go first.
  void pause();
  [[noreturn]] void fail(const std::string& what);

  void wake(Thread& thread);
  void wake_all(Waiters& waiters);

  // Does it at any time from now on.
  void defer(std::function<void()> action);
  bool acts_at_once() const { return timing_ == Timing::kAtOnce; }

 private:
  enum class Timing { kLate, kAtOnce, kAnyTime };

  bool act();
  void change_priority(Warp& warp);
  Warp* choose() const;
  void run_lanes(Warp& warp);
  void resume(Thread& thread);
  std::string describe_deadlock(const std::vector<Thread*>& threads) const;

  Random random_;
  const Timing timing_;
  const uint64_t change_;  // a warp keeps its priority through about so many of its turns
  std::vector<Warp*> warps_;
  std::vector<std::function<void()>> deferred_;
  std::string failure_;
  bool is_in_fiber_ = false;
};

}  // namespace graphsafe_gg::emulation
