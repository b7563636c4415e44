// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/conformance.h"

#include <cstring>
#include <exception>
#include <thread>

#include "testing/sim_types.h"
#include "testing/simulation.h"

namespace graphsafe_gg::testing {
namespace {

// Runs the body on a thread and hands its exception on.
void run_on_thread(const std::function<void()>& body) {
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

CheckedDriver simulated_driver() {
  sim::SimDriver* driver = sim::SimDriver::current();
  if (driver == nullptr) throw std::logic_error("a simulation must be open");
  return {&sim::SimDriver::cuda_table(),
          &sim::SimDriver::graph_table(),
          driver->options.num_devices,
          true,
          [driver](CUstream stream) { driver->close_gate(stream); },
          [driver] { driver->open_gates(); }};
}

Bench::Bench(const CheckedDriver& driver) : driver_(driver) {
  ok(graphs().ctx_set_current(context(0)), "cuCtxSetCurrent");
}

Bench::~Bench() {
  open_gates();
  int mode = sim::kModeRelaxed;
  static_cast<void>(cuda().thread_exchange_stream_capture_mode(&mode));
  static_cast<void>(graphs().ctx_set_current(context(0)));
  static_cast<void>(cuda().ctx_synchronize());
  for (auto cleanup = cleanups_.rbegin(); cleanup != cleanups_.rend(); ++cleanup) (*cleanup)();
}

CUcontext Bench::context(int ordinal) {
  CUcontext context = nullptr;
  ok(cuda().device_primary_ctx_retain(&context, ordinal), "cuDevicePrimaryCtxRetain");
  return context;
}

CUstream Bench::stream(unsigned flags) {
  CUstream stream = nullptr;
  ok(graphs().stream_create(&stream, flags), "cuStreamCreate");
  cleanups_.push_back([this, stream] {
    CUgraph graph = nullptr;  // of a capture that a failed check left open
    int status = 0;
    static_cast<void>(cuda().stream_is_capturing(stream, &status));
    if (status != 0) static_cast<void>(graphs().stream_end_capture(stream, &graph));
    if (graph != nullptr) static_cast<void>(graphs().graph_destroy(graph));
    static_cast<void>(graphs().stream_destroy(stream));
  });
  return stream;
}

CUevent Bench::event() {
  CUevent event = nullptr;
  ok(cuda().event_create(&event, cuda::kEventDisableTiming), "cuEventCreate");
  cleanups_.push_back([this, event] { static_cast<void>(cuda().event_destroy(event)); });
  return event;
}

cuda::DevicePtr Bench::device_bytes(unsigned char value) {
  cuda::DevicePtr device = 0;
  ok(graphs().mem_alloc(&device, kBytes), "cuMemAlloc");
  cleanups_.push_back([this, device] { static_cast<void>(graphs().mem_free(device)); });
  const CUstream on = stream();
  fill(device, value, on);
  synchronize(on);
  return device;
}

unsigned char* Bench::pinned() {
  void* host = nullptr;
  ok(cuda().mem_host_alloc(&host, kBytes, cuda::kMemHostAllocDeviceMap), "cuMemHostAlloc");
  cleanups_.push_back([this, host] { static_cast<void>(cuda().mem_free_host(host)); });
  std::memset(host, 0, kBytes);
  return static_cast<unsigned char*>(host);
}

void Bench::fill(cuda::DevicePtr device, unsigned char value, CUstream stream) {
  ok(graphs().memset_d8_async(device, value, kBytes, stream), "cuMemsetD8Async");
}

void Bench::copy_out(unsigned char* host, cuda::DevicePtr device, CUstream stream) {
  ok(cuda().memcpy_dtoh_async(host, device, kBytes, stream), "cuMemcpyDtoHAsync");
}

void Bench::synchronize(CUstream stream) {
  ok(graphs().stream_synchronize(stream), "cuStreamSynchronize");
}

void Bench::begin(CUstream stream, int mode) {
  ok(graphs().stream_begin_capture(stream, mode), "cuStreamBeginCapture");
}

CUgraph Bench::end(CUstream stream) {
  CUgraph graph = nullptr;
  ok(graphs().stream_end_capture(stream, &graph), "cuStreamEndCapture");
  cleanups_.push_back([this, graph] { static_cast<void>(graphs().graph_destroy(graph)); });
  return graph;
}

CUgraphExec Bench::instantiate(CUgraph graph) {
  CUgraphExec exec = nullptr;
  ok(graphs().graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  cleanups_.push_back([this, exec] { static_cast<void>(graphs().graph_exec_destroy(exec)); });
  return exec;
}

void Bench::launch(CUgraphExec exec, CUstream stream) {
  ok(graphs().graph_launch(exec, stream), "cuGraphLaunch");
}

std::vector<int> Bench::node_types(CUgraph graph) {
  size_t num_nodes = 0;
  ok(graphs().graph_get_nodes(graph, nullptr, &num_nodes), "cuGraphGetNodes");
  std::vector<CUgraphNode> nodes(num_nodes);
  ok(graphs().graph_get_nodes(graph, nodes.data(), &num_nodes), "cuGraphGetNodes");
  std::vector<int> types(num_nodes);
  for (size_t i = 0; i < num_nodes; ++i) {
    ok(graphs().graph_node_get_type(nodes[i], &types[i]), "cuGraphNodeGetType");
  }
  return types;
}

int Bench::set_mode(int mode) {
  ok(cuda().thread_exchange_stream_capture_mode(&mode), "cuThreadExchangeStreamCaptureMode");
  return mode;
}

void Bench::expect(bool holds, const std::string& what) {
  if (!holds) throw CheckFailure(what);
}

void Bench::expect_code(cuda::Result result, cuda::Result wanted, const std::string& what) {
  if (result == wanted) return;
  throw CheckFailure(what + " must return " + std::to_string(wanted) + "; got " +
                     std::to_string(result));
}

void Bench::on_other_thread(const std::function<void()>& body) {
  run_on_thread([&] {
    ok(graphs().ctx_set_current(context(0)), "cuCtxSetCurrent");
    body();
  });
}

const std::vector<Check>& conformance_checks() {
  static const std::vector<Check> all = [] {
    std::vector<Check> checks;
    for (const auto& some : {stream_checks(), capture_checks(), fork_checks(), graph_checks()}) {
      checks.insert(checks.end(), some.begin(), some.end());
    }
    return checks;
  }();
  return all;
}

std::string run_check(const std::string& name, const CheckedDriver& driver) {
  for (const Check& check : conformance_checks()) {
    if (check.name != name) continue;
    if (check.num_devices > driver.num_devices) return "skipped: needs two devices";
    if (check.needs_kernels && !driver.has_kernels) return "skipped: built without kernels";
    try {
      run_on_thread([&] {
        Bench bench(driver);
        check.run(bench);
      });
    } catch (const CheckFailure& failure) {
      return failure.what();
    }
    return "";
  }
  throw std::invalid_argument("no such check: " + name);
}

}  // namespace graphsafe_gg::testing
