// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU. Work is queued at the call and done when simulated time advances:
// on request, while a host waits, or by a background thread. design/simulated_driver.md says which
// rules of the driver it keeps.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>

#include "runtime/cuda_api.h"
#include "testing/graph_api.h"
#include "testing/sim_faults.h"
#include "testing/sim_log.h"
#include "testing/sim_memory.h"
#include "testing/sim_work.h"

namespace graphsafe_gg::sim {

struct Options {
  int num_devices = 1;
  uint64_t seed = 0;
  bool is_background = false;   // a thread advances time, with random pauses
  int64_t max_jitter = 0;       // random further steps of each kernel and copy
  int64_t steps_per_query = 1;  // time that passes while a host polls
  size_t max_pinned_bytes = size_t{1} << 30;
  int arch = 90;
};

struct Event {
  int ordinal;
  uint64_t recorded = 0;  // number of the latest record; 0: never
  uint64_t done = 0;      // largest number that was reached
  uint64_t capture = 0;   // sequence it was last recorded in, if that was a captured record
  std::vector<size_t> capture_nodes;
};

// One entry of a stream's queue.
struct Op {
  Work work;
  std::optional<GraphRun> graph;
  uint64_t number = 0;  // of the event record or of the record that is waited for
  int64_t steps_left = 1;
  int64_t num_steps = 1;
};

struct Stream {
  int ordinal;
  unsigned flags;
  std::deque<Op> queue;
  uint64_t capture = 0;
};

struct Capture {
  uint64_t origin;  // stream
  int mode;
  std::thread::id thread;
  bool is_valid = true;
  uint64_t graph;
  std::map<uint64_t, std::vector<size_t>> ends;  // by stream: nodes that its next one waits for
};

struct GraphExec {
  uint64_t source;  // the graph it was made from
  std::shared_ptr<const GraphBody> body;
};

struct Function {
  std::string symbol;
  int ordinal;
  int max_smem_bytes = 48 << 10;
};

struct LiveCounts {
  int64_t streams, events, graphs, graph_execs, user_objects, pinned, device, libraries;
  int64_t pinned_bytes;
};

class SimDriver {
 public:
  explicit SimDriver(const Options& options);
  ~SimDriver();
  SimDriver(const SimDriver&) = delete;
  SimDriver& operator=(const SimDriver&) = delete;

  // The driver behind the tables; null for none. The tables themselves are constant.
  static SimDriver* current();
  static void set_current(SimDriver* driver);
  static const CudaApi& cuda_table();
  static const GraphApi& graph_table();

  // Controls for tests. They take the lock.
  int64_t advance(int64_t num_steps);  // steps that were done; fewer when nothing can run
  bool drain();                        // false if work is left that cannot run
  void close_gate(CUstream stream);
  void open_gates();
  void lose_device(int ordinal, Result code);
  void deinitialize();
  void shut_down();  // ends the background thread; work left in streams is dropped
  LiveCounts live_counts();
  uint64_t device_word(int ordinal, const std::string& name);
  void write(DevicePtr address, const void* bytes, size_t size_bytes);
  std::vector<std::byte> read(DevicePtr address, size_t size_bytes);

  // The next matching call stops at its begin. One at a time.
  void pause(const std::string& function, std::optional<Stage> stage);
  bool wait_until_paused(double timeout_s);
  void resume();

  // All below is guarded by `mutex`; functions expect it held.
  std::mutex mutex;
  const Options options;
  const pid_t owner;
  CallLog log;
  Faults faults;
  Memory memory;

  uint64_t new_id() { return next_id_ += 16; }

  // Contexts: one primary context a device; the handle is a number.
  std::vector<int>& context_stack() { return contexts_[std::this_thread::get_id()]; }
  int current_ordinal();  // -1 without a current context
  CUcontext context_of(int ordinal) const;
  int ordinal_of(CUcontext context) const;  // -1 if unknown

  // Sticky failure of the device, or success.
  Result device_status(int ordinal) const;
  bool is_deinitialized = false;
  std::vector<int64_t> num_retained;

  // Streams and time.
  std::map<uint64_t, Stream> streams;
  Stream* find_stream(CUstream stream);  // null if unknown; the null stream is the current device's
  uint64_t id_of(const Stream& stream) const;
  Result enqueue(Stream& stream, Work work);
  Result enqueue_graph(Stream& stream, std::shared_ptr<const GraphBody> body);
  bool step();
  bool is_idle(int ordinal) const;
  // Lets time pass until the condition holds. Fails with the device's status, or kUnknown after
  // five seconds without progress.
  template <typename Condition>
  Result wait(std::unique_lock<std::mutex>& lock, int ordinal, Condition&& holds);
  void stop_if_paused(std::unique_lock<std::mutex>& lock, const char* function);
  void violate(const std::string& text) { log.violations.push_back(text); }

  // Events.
  std::map<uint64_t, Event> events;
  Event* find_event(CUevent event);
  uint64_t next_record() { return ++next_record_; }

  // Capture.
  std::map<uint64_t, Capture> captures;
  std::map<std::thread::id, int> capture_modes;
  int& capture_mode() { return capture_modes[std::this_thread::get_id()]; }
  // Success, or the code of a potentially unsafe call here and now: the captures it disturbs
  // become invalid.
  Result check_unsafe();
  // The same for a call that conflicts with the capture of this stream or event itself.
  Result conflict(uint64_t capture);
  Result conflict_with_device(int ordinal);
  Result check_implicit(const Stream& stream);
  Result capture_node(Stream& stream, Work work);
  Capture* capture_of(const Stream& stream);

  // Graphs.
  std::map<uint64_t, std::shared_ptr<GraphBody>> graphs;
  std::map<uint64_t, std::pair<uint64_t, size_t>> nodes;  // handle -> graph, index
  std::map<uint64_t, GraphExec> execs;
  std::map<uint64_t, std::pair<std::shared_ptr<UserObject>, int64_t>> user_objects;
  std::shared_ptr<ReleaseQueue> releases = std::make_shared<ReleaseQueue>();
  uint64_t node_handle(uint64_t graph, size_t index);

  // Code.
  std::map<uint64_t, const void*> libraries;
  std::map<uint64_t, std::string> kernels;
  std::map<uint64_t, Function> functions;

 private:
  bool is_runnable(const Op& op) const;
  bool is_runnable(const Work& work, uint64_t number) const;
  int64_t draw_steps(const Work& work);
  void run_head(Stream& stream);
  void run_graph_item(Stream& stream, Op& op);
  void perform(const Work& work, uint64_t number, int ordinal, int64_t step, int64_t num_steps);
  void perform_copy(const Copy& copy, int ordinal, int64_t step, int64_t num_steps);
  bool run_release();
  void run_background();
  void fail_device(int ordinal, Result code) { lost_[ordinal] = code; }

  uint64_t next_id_ = 0x5100000000;
  uint64_t next_record_ = 0;
  int64_t num_steps_ = 0;  // done so far
  std::unordered_map<std::thread::id, std::vector<int>> contexts_;
  std::map<int, Result> lost_;
  std::map<int, uint64_t> null_streams_;
  std::map<int, DeviceWords> words_;
  std::vector<std::shared_ptr<bool>> gates_;
  std::optional<Pause> pause_;
  std::mt19937_64 random_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::thread background_;
};

template <typename Condition>
Result SimDriver::wait(std::unique_lock<std::mutex>& lock, int ordinal, Condition&& holds) {
  constexpr auto kPatience = std::chrono::seconds(5);
  int64_t seen = num_steps_;
  auto since = std::chrono::steady_clock::now();
  while (!holds()) {
    if (is_deinitialized) return kDeinitialized;
    if (const Result status = device_status(ordinal); status != kSuccess) return status;
    if (!options.is_background && step()) continue;
    changed_.wait_for(lock, std::chrono::milliseconds(10));
    const auto now = std::chrono::steady_clock::now();
    if (seen != num_steps_) {
      seen = num_steps_;
      since = now;
    } else if (now - since > kPatience) {
      violate("a host waits for work that cannot run");
      return kUnknown;
    }
  }
  return kSuccess;
}

// One call of the driver's interface: lock, faults, sticky errors, log.
class Call {
 public:
  explicit Call(const char* function, int64_t size_bytes = 0);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // False when there is nothing to do but return result().
  bool is_open() const { return lock_.owns_lock(); }
  // Announces the device; false if the call fails before it starts. `is_device_call` is false for
  // the few that work on a lost device.
  bool enter(int ordinal, bool is_device_call = true);
  Result done(Result result) { return result_ = result; }
  void set_detail(const std::string& detail) { detail_ = detail; }
  Result result() const { return result_; }
  SimDriver* operator->() const { return driver_; }
  SimDriver& driver() const { return *driver_; }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  SimDriver* driver_;
  const char* function_;
  const int64_t size_bytes_;
  std::string detail_;
  int ordinal_ = -1;
  Result result_ = kSuccess;
  std::unique_lock<std::mutex> lock_;
};

// True in a thread that runs the destructor of a user object: there every call is forbidden.
bool& is_in_release();

// Handles are numbers that are never used twice, so that a stale one is always found out.
template <typename Handle>
Handle to_handle(uint64_t id) {
  return reinterpret_cast<Handle>(id);
}
template <typename Handle>
uint64_t to_id(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

}  // namespace graphsafe_gg::sim
