// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// How the executor runs one thunk: a handler in the surroundings that XLA gives it, or filler work.
#include <utility>

#include "testing/executor.h"

namespace graphsafe_gg::testing {
namespace {

const CudaApi& cu() { return sim::SimDriver::cuda_table(); }
const GraphApi& graphs() { return sim::SimDriver::graph_table(); }

sim::Stage stage_of(XLA_FFI_ExecutionStage stage, bool is_captured) {
  switch (stage) {
    case XLA_FFI_ExecutionStage_INSTANTIATE:
      return sim::Stage::kInstantiate;
    case XLA_FFI_ExecutionStage_PREPARE:
      return sim::Stage::kPrepare;
    case XLA_FFI_ExecutionStage_INITIALIZE:
      return sim::Stage::kInitialize;
    case XLA_FFI_ExecutionStage_EXECUTE:
      break;
  }
  return is_captured ? sim::Stage::kExecuteCapture : sim::Stage::kExecuteEager;
}

// Sets the thread's contexts for a handler, which must leave them, and the capture mode, as it
// found them.
class HandlerThread {
 public:
  HandlerThread(sim::SimDriver& driver, const std::string& name, const std::vector<int>& contexts)
      : driver_(driver), name_(name), contexts_(contexts) {
    std::lock_guard<std::mutex> lock(driver_.mutex);
    outer_contexts_ = std::exchange(driver_.context_stack(), contexts_);
    outer_mode_ = std::exchange(driver_.capture_mode(), sim::kModeGlobal);
  }
  ~HandlerThread() {
    std::lock_guard<std::mutex> lock(driver_.mutex);
    if (driver_.context_stack() != contexts_ || driver_.capture_mode() != sim::kModeGlobal) {
      driver_.violate(name_ + " left another context or capture mode behind");
    }
    driver_.context_stack() = outer_contexts_;
    driver_.capture_mode() = outer_mode_;
  }
  HandlerThread(const HandlerThread&) = delete;
  HandlerThread& operator=(const HandlerThread&) = delete;

 private:
  sim::SimDriver& driver_;
  const std::string& name_;
  const std::vector<int> contexts_;
  std::vector<int> outer_contexts_;
  int outer_mode_ = 0;
};

}  // namespace

void Executable::execute_thunk(Run& run, const Thunk& thunk, CUstream stream, bool is_captured) {
  if (thunk.kind == Thunk::Kind::kCall) {
    const Context context{true, stream, run.device.ordinal(), run.run_id};
    (is_captured ? counters_.captured_calls : counters_.eager_calls).fetch_add(1);
    call(run, thunk, target(thunk).execute, XLA_FFI_ExecutionStage_EXECUTE, context);
    return;
  }
  const ContextScope scope(run.device.context());
  if (thunk.kind == Thunk::Kind::kCopy) {
    check_xla(graphs().memcpy_dtod_async(
                  address(run, thunk.results.at(0)), address(run, thunk.operands.at(0)),
                  program_.buffers.at(thunk.results.at(0)).size_bytes(), stream),
              "cuMemcpyDtoDAsync");
    return;
  }
  std::vector<uint64_t> values;
  for (const size_t operand : thunk.operands) values.push_back(address(run, operand));
  for (const int64_t scalar : thunk.scalars) values.push_back(static_cast<uint64_t>(scalar));
  std::vector<void*> pointers;
  for (uint64_t& value : values) pointers.push_back(&value);
  check_xla(cu().launch_kernel(run.device.test_kernel(thunk.name), 1, 1, 1, 32, 1, 1, 0, stream,
                               pointers.data(), nullptr),
            "cuLaunchKernel");
}

void Executable::call(Run& run, const Thunk& thunk, XLA_FFI_Handler* handler,
                      XLA_FFI_ExecutionStage stage, const Context& context) {
  const auto to_args = [&](const std::vector<size_t>& buffers) {
    std::vector<BufferArg> args;
    for (const size_t buffer : buffers) {
      const LogicalBuffer& logical = program_.buffers.at(buffer);
      args.push_back({logical.dtype, logical.dims, reinterpret_cast<void*>(address(run, buffer))});
    }
    return args;
  };
  const bool is_captured = context.has_stream && context.stream != run.device.stream();
  const sim::StageScope scope(stage_of(stage, is_captured));
  const HandlerThread thread(machine_.driver(), thunk.name, current_contexts(run.device));
  call_handler(handler, stage, context, to_args(thunk.operands), to_args(thunk.results),
               thunk.attributes);
}

std::vector<int> Executable::current_contexts(const Device& device) const {
  if (options_.context == CurrentContext::kNone) return {};
  if (options_.context == CurrentContext::kOwn) return {device.ordinal()};
  return {device.ordinal() == 0 ? 1 : 0};
}

}  // namespace graphsafe_gg::testing
