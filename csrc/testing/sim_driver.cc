// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_driver.h"

#include <unistd.h>

#include <cstring>

namespace graphsafe_gg::sim {
namespace {

std::atomic<SimDriver*> g_driver{nullptr};
constexpr uint64_t kContextBase = 0xC0000;

}  // namespace

SimDriver::SimDriver(const Options& chosen)
    : options(chosen),
      owner(getpid()),
      memory(chosen.num_devices),
      num_retained(static_cast<size_t>(chosen.num_devices), 0),
      random_(chosen.seed) {
  for (int ordinal = 0; ordinal < options.num_devices; ++ordinal) {
    const uint64_t id = new_id();
    null_streams_[ordinal] = id;
    streams[id] = {ordinal, 0, {}, 0};
  }
  if (options.is_background) background_ = std::thread([this] { run_background(); });
}

SimDriver::~SimDriver() {
  if (owner != getpid()) {  // a forked child has no background thread
    if (background_.joinable()) background_.detach();
    return;
  }
  shut_down();
}

void SimDriver::shut_down() {
  {
    std::lock_guard<std::mutex> guard(mutex);
    is_stopping_ = true;
    for (auto& [id, stream] : streams) stream.queue.clear();
  }
  changed_.notify_all();
  if (background_.joinable()) background_.join();
}

SimDriver* SimDriver::current() { return g_driver.load(std::memory_order_acquire); }
void SimDriver::set_current(SimDriver* driver) {
  g_driver.store(driver, std::memory_order_release);
}

int SimDriver::current_ordinal() {
  const std::vector<int>& stack = context_stack();
  return stack.empty() ? -1 : stack.back();
}

CUcontext SimDriver::context_of(int ordinal) const {
  return ordinal < 0 ? nullptr
                     : to_handle<CUcontext>(kContextBase + static_cast<uint64_t>(ordinal) * 16);
}

int SimDriver::ordinal_of(CUcontext context) const {
  const uint64_t id = to_id(context);
  if (id < kContextBase || (id - kContextBase) % 16 != 0) return -1;
  const uint64_t ordinal = (id - kContextBase) / 16;
  return ordinal < static_cast<uint64_t>(options.num_devices) ? static_cast<int>(ordinal) : -1;
}

Result SimDriver::device_status(int ordinal) const {
  const auto found = lost_.find(ordinal);
  return found == lost_.end() ? kSuccess : found->second;
}

void SimDriver::lose_device(int ordinal, Result code) {
  std::lock_guard<std::mutex> guard(mutex);
  fail_device(ordinal, code);
  changed_.notify_all();
}

void SimDriver::deinitialize() {
  std::lock_guard<std::mutex> guard(mutex);
  is_deinitialized = true;
  changed_.notify_all();
}

LiveCounts SimDriver::live_counts() {
  std::lock_guard<std::mutex> guard(mutex);
  const auto size = [](const auto& map) { return static_cast<int64_t>(map.size()); };
  LiveCounts counts{};
  counts.streams = size(streams) - options.num_devices;
  counts.events = size(events);
  counts.graphs = size(graphs);
  counts.graph_execs = size(execs);
  counts.user_objects = size(user_objects);
  counts.pinned = static_cast<int64_t>(memory.num_pinned_blocks());
  counts.device = static_cast<int64_t>(memory.num_device_blocks());
  counts.libraries = size(libraries);
  counts.pinned_bytes = static_cast<int64_t>(memory.pinned_bytes());
  return counts;
}

uint64_t SimDriver::device_word(int ordinal, const std::string& name) {
  std::lock_guard<std::mutex> guard(mutex);
  return words_[ordinal][name];
}

void SimDriver::write(DevicePtr address, const void* bytes, size_t size_bytes) {
  std::lock_guard<std::mutex> guard(mutex);
  std::byte* to = memory.device_view(memory.ordinal_of(address), address, size_bytes);
  if (to == nullptr) throw IllegalAddress("write outside live device memory");
  if (size_bytes != 0) std::memcpy(to, bytes, size_bytes);
}

std::vector<std::byte> SimDriver::read(DevicePtr address, size_t size_bytes) {
  std::lock_guard<std::mutex> guard(mutex);
  const std::byte* from = memory.device_view(memory.ordinal_of(address), address, size_bytes);
  if (from == nullptr) throw IllegalAddress("read outside live device memory");
  return {from, from + size_bytes};
}

}  // namespace graphsafe_gg::sim
