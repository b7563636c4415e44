// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What XLA's client owns: for each device a context, a compute stream and an allocator that gives
// freed addresses out again at once; and the run ids.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "testing/sim_driver.h"

namespace graphsafe_gg::testing {

using cuda::DevicePtr;

// Throws ExecutionError INTERNAL unless the status is success. For XLA's own calls.
void check_xla(cuda::Result status, const char* call);

class Device;

// Device memory of one logical buffer. Freed, it may be handed out at once, though queued work
// still uses it: the next user's work comes later on the same stream.
class Block {
 public:
  Block(Device& device, DevicePtr address, size_t size_bytes)
      : device_(device), address_(address), size_bytes_(size_bytes) {}
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  Device& device() const { return device_; }
  DevicePtr address() const { return address_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  Device& device_;
  const DevicePtr address_;
  const size_t size_bytes_;
};

class Device {
 public:
  Device(sim::SimDriver& driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  CUcontext context() const { return context_; }
  CUstream stream() const { return stream_; }
  std::shared_ptr<Block> allocate(size_t size_bytes);
  void write(const Block& block, const void* bytes, size_t size_bytes);  // in stream order
  void synchronize();
  int64_t num_live_blocks() const { return num_live_; }
  CUfunction test_kernel(const std::string& symbol);

  // A stream to capture on, for as long as the caller holds it.
  CUstream borrow_capture_stream();
  void give_back(CUstream stream);

 private:
  friend class Block;
  void free(DevicePtr address, size_t size_bytes);

  sim::SimDriver& driver_;
  const int ordinal_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::atomic<int64_t> num_live_{0};
  std::mutex mutex_;                               // guards all below
  std::map<size_t, std::vector<DevicePtr>> free_;  // by rounded bytes, last freed first
  std::vector<CUstream> capture_streams_;
  std::map<std::string, CUfunction> test_kernels_;
};

class Executable;

class Machine {
 public:
  explicit Machine(sim::SimDriver& driver);
  ~Machine();

  sim::SimDriver& driver() { return driver_; }
  Device& device(int ordinal);
  int64_t next_run_id() { return ++run_id_; }

  // Every live executable: a new one with command buffers evicts those of all others.
  void enter(Executable* executable);
  void leave(Executable* executable);
  void evict_all();

 private:
  sim::SimDriver& driver_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::atomic<int64_t> run_id_{0};
  std::mutex mutex_;
  std::set<Executable*> executables_;  // guarded by mutex_
};

// Makes a context current for XLA's own calls, which no foreign capture hinders.
class ContextScope {
 public:
  explicit ContextScope(CUcontext context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const sim::StageScope stage_{sim::Stage::kExecutor};
  int mode_ = sim::kModeRelaxed;
};

}  // namespace graphsafe_gg::testing
