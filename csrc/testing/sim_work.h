// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Device work as data: what a stream queues and what a graph holds.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "testing/sim_kernels.h"

namespace graphsafe_gg::sim {

struct KernelLaunch {
  std::string symbol;
  const Emulation* emulation;
  Params params;
  unsigned grid_x;
};

// One end may be host memory: pinned, or bytes that were read at the call (pageable source).
struct Copy {
  DevicePtr to = 0;
  void* to_host = nullptr;
  DevicePtr from = 0;
  const void* from_host = nullptr;
  std::shared_ptr<std::vector<std::byte>> from_bytes;
  size_t size_bytes = 0;
};

struct Memset {
  DevicePtr to;
  unsigned char value;
  size_t size_bytes;
};

struct EventRecord {
  uint64_t event;
};

struct EventWait {
  uint64_t event;
};

// Holds its stream until the test opens it.
struct Gate {
  std::shared_ptr<bool> is_open;
};

struct Empty {};

struct GraphBody;
struct ChildGraph {
  std::shared_ptr<const GraphBody> body;
};

using Work =
    std::variant<Empty, KernelLaunch, Copy, Memset, EventRecord, EventWait, Gate, ChildGraph>;

NodeType node_type(const Work& work);

// Destructors of user objects, waiting for the driver's internal thread.
struct ReleaseQueue {
  std::mutex mutex;
  std::deque<std::pair<void (*)(void*), void*>> due;  // guarded by mutex
};

class UserObject {
 public:
  UserObject(std::shared_ptr<ReleaseQueue> queue, void (*destroy)(void*), void* pointer)
      : queue_(std::move(queue)), destroy_(destroy), pointer_(pointer) {}
  ~UserObject() {
    std::lock_guard<std::mutex> lock(queue_->mutex);
    queue_->due.emplace_back(destroy_, pointer_);
  }
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  const std::shared_ptr<ReleaseQueue> queue_;
  void (*const destroy_)(void*);
  void* const pointer_;
};

struct Node {
  Work work;
  std::vector<size_t> dependencies;  // indices of earlier nodes
};

struct GraphBody {
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<UserObject>> user_objects;
};

// Same node types, edges and kinds of copy, child graphs included.
bool has_same_topology(const GraphBody& a, const GraphBody& b);

// A launched graph: nodes of child graphs stand in line with the others.
struct GraphRun {
  struct Item {
    const Work* work;
    std::vector<size_t> dependents;
    size_t num_waiting;
    uint64_t record_number = 0;  // of an event record
    int64_t steps_left = 0;
  };
  std::shared_ptr<const GraphBody> body;  // keeps the work, and what the graph retains, alive
  std::vector<Item> items;
  std::vector<size_t> ready;
  size_t num_left = 0;
};
GraphRun flatten(std::shared_ptr<const GraphBody> body);

}  // namespace graphsafe_gg::sim
