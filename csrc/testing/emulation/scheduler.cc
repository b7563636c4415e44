// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/scheduler.h"

#include <algorithm>
#include <map>

#include "testing/emulation/cluster.h"
#include "testing/emulation/cuda.h"
#include "testing/emulation/faults.h"

namespace graphsafe_gg::emulation {
namespace {

Thread* g_current = nullptr;

constexpr uint64_t kChanges[] = {1, 16, 1024};

}  // namespace

Random::Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull | 1) {
  for (int i = 0; i < 4; ++i) draw();
}

uint64_t Random::draw() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ >> 8;
}

Scheduler::Scheduler(uint64_t seed)
    : random_(seed),
      timing_(static_cast<Timing>(seed % 3)),
      change_(kChanges[seed / 3 % std::size(kChanges)]) {}

Thread& Scheduler::current() { return *g_current; }

void Scheduler::wake(Thread& thread) { thread.warp->ready.push_back(&thread); }

void Scheduler::wake_all(Waiters& waiters) {
  for (Thread* thread : waiters) wake(*thread);
  waiters.clear();
}

void Scheduler::wait_in(Waiters& waiters, Waiting waiting) {
  Thread& thread = current();
  thread.waiting = waiting;
  waiters.push_back(&thread);
  thread.fiber.suspend();
}

// The same for all lanes, each of which counts the places where it may pause.
void Scheduler::pause() {
  Thread& thread = current();
  Warp& warp = *thread.warp;
  if (!Random(warp.seed + thread.num_pauses++).one_in(8)) return;
  warp.paused.push_back(&thread);
  thread.fiber.suspend();
}

// What stands on the thread's stack is lost. No exception may leave a fiber.
void Scheduler::fail(const std::string& what) {
  Thread& thread = current();
  failure_ = "thread " + std::to_string(thread.index) + " of block " +
             std::to_string(thread.block->index) + ": " + what;
  if (!is_in_fiber_) throw EmulationError(failure_);
  Fiber::abandon();
}

void Scheduler::defer(std::function<void()> action) {
  if (acts_at_once()) {
    action();
  } else {
    deferred_.push_back(std::move(action));
  }
}

// One of those that are due, in any order.
bool Scheduler::act() {
  if (deferred_.empty()) return false;
  std::swap(deferred_[random_.draw() % deferred_.size()], deferred_.back());
  const std::function<void()> action = std::move(deferred_.back());
  deferred_.pop_back();
  action();
  return true;
}

void Scheduler::resume(Thread& thread) {
  g_current = &thread;
  ::threadIdx.x = thread.index;
  ::blockIdx.x = thread.block->index;
  const FaultScope faults;
  is_in_fiber_ = true;
  thread.fiber.resume();
  is_in_fiber_ = false;
  const std::string fault = faults.describe(thread.block->cluster->memory);
  if (!fault.empty()) fail(fault);
  if (!failure_.empty()) throw EmulationError(failure_);
}

void Scheduler::change_priority(Warp& warp) {
  if (random_.one_in(change_)) warp.priority = random_.draw();
}

Warp* Scheduler::choose() const {
  Warp* best = nullptr;
  for (Warp* warp : warps_) {
    if (warp->ready.empty()) continue;
    if (best == nullptr || warp->priority > best->priority) best = warp;
  }
  return best;
}

// Until all of them wait or have paused.
void Scheduler::run_lanes(Warp& warp) {
  Waiters& ready = warp.ready;
  while (!ready.empty()) {
    if (timing_ == Timing::kAnyTime && random_.one_in(64)) act();
    std::swap(ready[random_.draw() % ready.size()], ready.back());
    Thread& next = *ready.back();
    ready.pop_back();
    resume(next);
    if (next.is_done) ++next.block->num_done;
  }
  ready.swap(warp.paused);
  change_priority(warp);
}

void Scheduler::run(const std::vector<Thread*>& threads) {
  for (Thread* thread : threads) {
    if (thread->lane() == 0) {
      warps_.push_back(thread->warp);
      thread->warp->priority = random_.draw();
      thread->warp->seed = random_.draw();
    }
    wake(*thread);
  }
  while (true) {
    if (Warp* warp = choose()) {
      run_lanes(*warp);
    } else if (!act()) {
      break;
    }
  }
  const bool all_done = std::all_of(threads.begin(), threads.end(),
                                    [](const Thread* thread) { return thread->is_done; });
  if (!all_done) throw EmulationError(describe_deadlock(threads));
}

std::string Scheduler::describe_deadlock(const std::vector<Thread*>& threads) const {
  std::map<std::string, std::pair<int, unsigned>> counts;  // and the first thread
  for (const Thread* thread : threads) {
    if (thread->is_done) continue;
    const Waiting& waiting = thread->waiting;
    std::string text = "block " + std::to_string(thread->block->index) + ": " + waiting.what;
    if (waiting.address != 0) {
      text += " at " + std::to_string(waiting.address) + ", parity " +
              std::to_string(waiting.parity) + describe_mbarrier(*thread->block, waiting.address);
    }
    auto& [count, first] = counts[text];
    if (count++ == 0) first = thread->index;
  }
  std::string report = "deadlock";
  for (const auto& [text, entry] : counts) {
    report += "; " + std::to_string(entry.first) + " threads from " + std::to_string(entry.second) +
              " on wait in " + text;
  }
  return report;
}

}  // namespace graphsafe_gg::emulation
