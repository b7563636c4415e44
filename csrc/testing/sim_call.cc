// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What every call of the driver's interface has in common.
#include <unistd.h>

#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {

bool& is_in_release() {
  thread_local bool is_in = false;
  return is_in;
}

Call::Call(const char* function, int64_t size_bytes)
    : driver_(SimDriver::current()), function_(function), size_bytes_(size_bytes) {
  if (driver_ == nullptr) {
    result_ = kDeinitialized;
    return;
  }
  if (is_in_release()) {  // this thread holds the lock
    driver_->violate(std::string(function) + " was called by a user object's destructor");
    result_ = kNotPermitted;
    return;
  }
  // In a forked child another thread's lock may never be released, so it is not asked for.
  if (driver_->owner != getpid()) {
    result_ = kNotInitialized;
    return;
  }
  lock_ = std::unique_lock<std::mutex>(driver_->mutex);
}

Call::~Call() {
  if (lock_.owns_lock())
    driver_->log.add(function_, ordinal_, result_, size_bytes_, std::move(detail_));
}

bool Call::enter(int ordinal, bool is_device_call) {
  if (!lock_.owns_lock()) return false;
  ordinal_ = ordinal;
  if (driver_->is_deinitialized) {
    result_ = kDeinitialized;
    return false;
  }
  driver_->stop_if_paused(lock_, function_);
  if (const auto fault = driver_->faults.next(function_, current_stage(), ordinal)) {
    result_ = *fault;
    return false;
  }
  if (is_device_call) result_ = driver_->device_status(ordinal);
  return result_ == kSuccess;
}

void SimDriver::pause(const std::string& function, std::optional<Stage> stage) {
  std::lock_guard<std::mutex> guard(mutex);
  pause_ = Pause{function, stage};
}

bool SimDriver::wait_until_paused(double timeout_s) {
  std::unique_lock<std::mutex> lock(mutex);
  return changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                           [this] { return pause_ && pause_->is_reached; });
}

void SimDriver::resume() {
  std::lock_guard<std::mutex> guard(mutex);
  if (pause_) pause_->is_over = true;
  changed_.notify_all();
}

void SimDriver::stop_if_paused(std::unique_lock<std::mutex>& lock, const char* function) {
  if (!pause_ || pause_->is_reached || pause_->is_over || pause_->function != function) return;
  if (pause_->stage && *pause_->stage != current_stage()) return;
  pause_->is_reached = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return pause_->is_over || is_stopping_; });
  pause_.reset();
}

}  // namespace graphsafe_gg::sim
