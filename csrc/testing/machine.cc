// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/machine.h"

#include "testing/executor.h"

namespace graphsafe_gg::testing {
namespace {

constexpr size_t kAlignment = 256;

size_t round_up(size_t size_bytes) {
  return size_bytes == 0 ? kAlignment : (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const CudaApi& cu() { return sim::SimDriver::cuda_table(); }
const GraphApi& graphs() { return sim::SimDriver::graph_table(); }

}  // namespace

void check_xla(cuda::Result status, const char* call) {
  if (status == cuda::kSuccess) return;
  const char* name = sim::error_name(status);
  const char* text = sim::error_text(status);
  throw ExecutionError(
      XLA_FFI_Error_Code_INTERNAL,
      "CUDA error: " + std::string(call) + ": " + (name ? name : "?") + ": " + (text ? text : "?"));
}

ContextScope::ContextScope(CUcontext context) {
  // A lost device or a driver that has shut down is met at the next call.
  static_cast<void>(cu().ctx_push_current(context));
  static_cast<void>(cu().thread_exchange_stream_capture_mode(&mode_));
}

ContextScope::~ContextScope() {
  static_cast<void>(cu().thread_exchange_stream_capture_mode(&mode_));
  CUcontext popped = nullptr;
  static_cast<void>(cu().ctx_pop_current(&popped));
}

Block::~Block() { device_.free(address_, size_bytes_); }

Device::Device(sim::SimDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  const sim::StageScope stage(sim::Stage::kExecutor);
  check_xla(cu().device_primary_ctx_retain(&context_, ordinal), "cuDevicePrimaryCtxRetain");
  const ContextScope scope(context_);
  check_xla(graphs().stream_create(&stream_, sim::kStreamNonBlocking), "cuStreamCreate");
}

Device::~Device() {
  const ContextScope scope(context_);
  for (const CUstream stream : capture_streams_) {
    static_cast<void>(graphs().stream_destroy(stream));
  }
  static_cast<void>(graphs().stream_destroy(stream_));
  for (const auto& [size_bytes, addresses] : free_) {
    for (const DevicePtr address : addresses) static_cast<void>(graphs().mem_free(address));
  }
}

std::shared_ptr<Block> Device::allocate(size_t size_bytes) {
  DevicePtr address = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::vector<DevicePtr>& free = free_[round_up(size_bytes)];
    if (!free.empty()) {
      address = free.back();
      free.pop_back();
    }
  }
  if (address == 0) {
    const ContextScope scope(context_);
    check_xla(graphs().mem_alloc(&address, round_up(size_bytes)), "cuMemAlloc");
  }
  num_live_.fetch_add(1);
  return std::make_shared<Block>(*this, address, size_bytes);
}

void Device::free(DevicePtr address, size_t size_bytes) {
  num_live_.fetch_sub(1);
  std::lock_guard<std::mutex> lock(mutex_);
  free_[round_up(size_bytes)].push_back(address);
}

void Device::write(const Block& block, const void* bytes, size_t size_bytes) {
  const ContextScope scope(context_);
  if (size_bytes == 0) return;
  check_xla(graphs().memcpy_htod_async(block.address(), bytes, size_bytes, stream_),
            "cuMemcpyHtoDAsync");
}

void Device::synchronize() {
  const ContextScope scope(context_);
  check_xla(graphs().stream_synchronize(stream_), "cuStreamSynchronize");
}

CUfunction Device::test_kernel(const std::string& symbol) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = test_kernels_.find(symbol);
  if (found != test_kernels_.end()) return found->second;
  std::lock_guard<std::mutex> driver_lock(driver_.mutex);
  const uint64_t id = driver_.new_id();
  driver_.functions[id] = {symbol, ordinal_};
  return test_kernels_[symbol] = sim::to_handle<CUfunction>(id);
}

CUstream Device::borrow_capture_stream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!capture_streams_.empty()) {
      const CUstream stream = capture_streams_.back();
      capture_streams_.pop_back();
      return stream;
    }
  }
  CUstream stream = nullptr;
  check_xla(graphs().stream_create(&stream, sim::kStreamNonBlocking), "cuStreamCreate");
  return stream;
}

void Device::give_back(CUstream stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  capture_streams_.push_back(stream);
}

Machine::Machine(sim::SimDriver& driver) : driver_(driver) {
  for (int ordinal = 0; ordinal < driver.options.num_devices; ++ordinal) {
    devices_.push_back(std::make_unique<Device>(driver, ordinal));
  }
}

Machine::~Machine() = default;

Device& Machine::device(int ordinal) { return *devices_.at(static_cast<size_t>(ordinal)); }

void Machine::enter(Executable* executable) {
  std::lock_guard<std::mutex> lock(mutex_);
  executables_.insert(executable);
}

void Machine::leave(Executable* executable) {
  std::lock_guard<std::mutex> lock(mutex_);
  executables_.erase(executable);
}

void Machine::evict_all() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (Executable* executable : executables_) executable->evict();
}

}  // namespace graphsafe_gg::testing
