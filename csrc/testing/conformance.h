// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What the project relies on in a driver, as checks that run on the simulated and the real one.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cuda_api.h"
#include "testing/graph_api.h"

namespace graphsafe_gg::testing {

// A driver under check. A gate holds its stream until it is opened.
struct CheckedDriver {
  const CudaApi* cuda;
  const GraphApi* graphs;
  int num_devices;
  bool has_kernels;  // real code is embedded, or none is needed
  std::function<void(CUstream)> close_gate;
  std::function<void()> open_gates;
};
CheckedDriver simulated_driver();
// Throws DriverError on a machine without a GPU.
CheckedDriver real_driver();

class CheckFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What one check works with, on a thread of its own whose only context is device 0's. Cleans up.
class Bench {
 public:
  explicit Bench(const CheckedDriver& driver);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const CudaApi& cuda() const { return *driver_.cuda; }
  const GraphApi& graphs() const { return *driver_.graphs; }
  void close_gate(CUstream stream) { driver_.close_gate(stream); }
  void open_gates() { driver_.open_gates(); }

  CUcontext context(int ordinal);
  CUstream stream(unsigned flags = 1);
  CUevent event();
  cuda::DevicePtr device_bytes(unsigned char value);  // kBytes of it
  unsigned char* pinned();                            // kBytes of zeros
  static constexpr size_t kBytes = 256;

  void fill(cuda::DevicePtr device, unsigned char value, CUstream stream);
  void copy_out(unsigned char* host, cuda::DevicePtr device, CUstream stream);
  void synchronize(CUstream stream);
  void begin(CUstream stream, int mode);
  CUgraph end(CUstream stream);  // of a capture that must be good
  CUgraphExec instantiate(CUgraph graph);
  void launch(CUgraphExec exec, CUstream stream);
  std::vector<int> node_types(CUgraph graph);
  int set_mode(int mode);  // the thread's; returns the earlier one

  void expect(bool holds, const std::string& what);
  void expect_code(cuda::Result result, cuda::Result wanted, const std::string& what);
  void ok(cuda::Result result, const std::string& what) { expect_code(result, 0, what); }
  // Runs the body on another thread with device 0's context.
  void on_other_thread(const std::function<void()>& body);

 private:
  const CheckedDriver& driver_;
  std::vector<std::function<void()>> cleanups_;
};

struct Check {
  const char* name;
  void (*run)(Bench&);
  int num_devices = 1;
  bool needs_kernels = false;
};
const std::vector<Check>& conformance_checks();

// Empty when it holds; "skipped: ..." when the driver has too few devices or no kernels.
std::string run_check(const std::string& name, const CheckedDriver& driver);

std::vector<Check> stream_checks();
std::vector<Check> capture_checks();
std::vector<Check> fork_checks();
std::vector<Check> graph_checks();

}  // namespace graphsafe_gg::testing
