// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/workers.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

namespace graphsafe_gg::cpu {
namespace {

// Outlives the call: a worker may start after the last block is done.
class Work {
 public:
  Work(int64_t count, const std::function<void(int64_t, Scratch&)>& compute)
      : count_(count), num_left_(count), compute_(&compute) {
    std::fegetenv(&modes_);
  }

  void work() {
    std::fenv_t own_modes;
    std::fegetenv(&own_modes);
    std::fesetenv(&modes_);
    Scratch scratch;
    for (int64_t i = next_.fetch_add(1); i < count_; i = next_.fetch_add(1)) {
      try {
        if (!has_failed_) (*compute_)(i, scratch);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!has_failed_.exchange(true)) error_ = std::current_exception();
      }
      if (num_left_.fetch_sub(1) == 1) {
        const std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_all();
      }
    }
    std::fesetenv(&own_modes);
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [&] { return num_left_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int64_t count_;
  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> num_left_;
  const std::function<void(int64_t, Scratch&)>* compute_;
  std::fenv_t modes_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::condition_variable done_;
  std::exception_ptr error_;
};

}  // namespace

void for_each_block(int64_t count, const Workers& workers, int64_t num_threads,
                    const std::function<void(int64_t, Scratch&)>& compute) {
  const auto work = std::make_shared<Work>(count, compute);
  const int64_t most = std::min({num_threads, workers.num_threads, count});
  try {
    for (int64_t i = 1; i < most; ++i) workers.schedule([work] { work->work(); });
  } catch (const std::bad_alloc&) {
    // Those that were scheduled read what the caller owns: go on with them.
  }
  work->work();
  if (count > 0) work->wait();
}

}  // namespace graphsafe_gg::cpu
