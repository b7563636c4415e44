// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Streams and simulated time. One step moves the head of one stream; which one is drawn at random,
// so that streams overtake each other.
#include <algorithm>
#include <cstring>

#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {
namespace {}  // namespace

Stream* SimDriver::find_stream(CUstream stream) {
  uint64_t id = to_id(stream);
  if (id == 0) {
    const auto null_stream = null_streams_.find(current_ordinal());
    if (null_stream == null_streams_.end()) return nullptr;
    id = null_stream->second;
  }
  const auto found = streams.find(id);
  return found == streams.end() ? nullptr : &found->second;
}

uint64_t SimDriver::id_of(const Stream& stream) const {
  for (const auto& [id, candidate] : streams) {
    if (&candidate == &stream) return id;
  }
  return 0;
}

int64_t SimDriver::draw_steps(const Work& work) {
  int64_t num_steps = 1;
  const auto* launch = std::get_if<KernelLaunch>(&work);
  if (launch != nullptr && launch->emulation->num_steps) {
    num_steps = std::max<int64_t>(1, launch->emulation->num_steps(launch->params));
  }
  const bool has_jitter = launch != nullptr || std::holds_alternative<Copy>(work);
  if (has_jitter && options.max_jitter > 0) {
    num_steps += static_cast<int64_t>(random_() % static_cast<uint64_t>(options.max_jitter + 1));
  }
  return num_steps;
}

Result SimDriver::enqueue(Stream& stream, Work work) {
  Op op;
  if (const auto* record = std::get_if<EventRecord>(&work)) {
    Event& event = events.at(record->event);
    event.recorded = op.number = next_record();
    event.capture = 0;
  } else if (const auto* waited = std::get_if<EventWait>(&work)) {
    op.number = events.at(waited->event).recorded;
  }
  op.steps_left = op.num_steps = draw_steps(work);
  op.work = std::move(work);
  stream.queue.push_back(std::move(op));
  changed_.notify_all();
  return kSuccess;
}

Result SimDriver::enqueue_graph(Stream& stream, std::shared_ptr<const GraphBody> body) {
  Op op;
  op.graph = flatten(std::move(body));
  for (GraphRun::Item& item : op.graph->items) {
    item.steps_left = draw_steps(*item.work);
    if (const auto* record = std::get_if<EventRecord>(item.work)) {
      const auto event = events.find(record->event);
      if (event == events.end()) {
        violate("a launched graph records a destroyed event");
        return kInvalidValue;
      }
      // From here on a query waits for this launch.
      event->second.recorded = item.record_number = next_record();
      event->second.capture = 0;
    }
  }
  stream.queue.push_back(std::move(op));
  changed_.notify_all();
  return kSuccess;
}

bool SimDriver::is_runnable(const Work& work, uint64_t number) const {
  if (const auto* gate = std::get_if<Gate>(&work)) return *gate->is_open;
  if (const auto* waited = std::get_if<EventWait>(&work)) {
    const auto event = events.find(waited->event);
    return event == events.end() || event->second.done >= number;
  }
  return true;
}

bool SimDriver::is_runnable(const Op& op) const {
  if (!op.graph) return is_runnable(op.work, op.number);
  return op.graph->items.empty() ||
         std::any_of(op.graph->ready.begin(), op.graph->ready.end(), [&](size_t item) {
           return is_runnable(*op.graph->items[item].work, op.graph->items[item].record_number);
         });
}

bool SimDriver::step() {
  std::vector<Stream*> candidates;
  for (auto& [id, stream] : streams) {
    if (stream.queue.empty() || device_status(stream.ordinal) != kSuccess) continue;
    if (is_runnable(stream.queue.front())) candidates.push_back(&stream);
  }
  const bool takes_release = candidates.empty() || random_() % 4 == 0;
  if (takes_release && run_release()) return true;
  if (candidates.empty()) return false;
  ++num_steps_;
  run_head(*candidates[random_() % candidates.size()]);
  changed_.notify_all();
  return true;
}

bool SimDriver::run_release() {
  std::pair<void (*)(void*), void*> due;
  {
    std::lock_guard<std::mutex> guard(releases->mutex);
    if (releases->due.empty()) return false;
    due = releases->due.front();
    releases->due.pop_front();
  }
  is_in_release() = true;
  due.first(due.second);
  is_in_release() = false;
  return true;
}

void SimDriver::run_head(Stream& stream) {
  Op& op = stream.queue.front();
  try {
    if (op.graph) {
      run_graph_item(stream, op);
      if (op.graph->num_left > 0) return;
    } else {
      perform(op.work, op.number, stream.ordinal, op.num_steps - op.steps_left, op.num_steps);
      if (--op.steps_left > 0) return;
    }
  } catch (const IllegalAddress& error) {
    violate(error.what());
    fail_device(stream.ordinal, kIllegalAddress);
    return;
  }
  stream.queue.pop_front();
}

void SimDriver::run_graph_item(Stream& stream, Op& op) {
  GraphRun& run = *op.graph;
  std::vector<size_t> runnable;
  for (size_t at = 0; at < run.ready.size(); ++at) {
    const GraphRun::Item& item = run.items[run.ready[at]];
    if (is_runnable(*item.work, item.record_number)) runnable.push_back(at);
  }
  if (runnable.empty()) return;
  const size_t at = runnable[random_() % runnable.size()];
  GraphRun::Item& item = run.items[run.ready[at]];
  if (--item.steps_left > 0) return;
  perform(*item.work, item.record_number, stream.ordinal, 0, 1);
  run.ready.erase(run.ready.begin() + static_cast<std::ptrdiff_t>(at));
  --run.num_left;
  for (const size_t dependent : item.dependents) {
    if (--run.items[dependent].num_waiting == 0) run.ready.push_back(dependent);
  }
}

// A copy of several steps moves a part at each: a host that reads early sees torn bytes.
void SimDriver::perform(const Work& work, uint64_t number, int ordinal, int64_t step,
                        int64_t num_steps) {
  const bool is_last = step + 1 == num_steps;
  if (const auto* copy = std::get_if<Copy>(&work)) {
    perform_copy(*copy, ordinal, step, num_steps);
  } else if (!is_last) {
    return;
  } else if (const auto* launch = std::get_if<KernelLaunch>(&work)) {
    KernelRun run(launch->symbol, launch->params, ordinal, memory, words_[ordinal]);
    launch->emulation->run(run);
  } else if (const auto* memset = std::get_if<Memset>(&work)) {
    std::byte* to = memory.device_view(ordinal, memset->to, memset->size_bytes);
    if (to == nullptr) throw IllegalAddress("a memset wrote outside live device memory");
    std::memset(to, memset->value, memset->size_bytes);
  } else if (const auto* record = std::get_if<EventRecord>(&work)) {
    const auto event = events.find(record->event);
    if (event != events.end()) event->second.done = std::max(event->second.done, number);
  }
}

void SimDriver::perform_copy(const Copy& copy, int ordinal, int64_t step, int64_t num_steps) {
  const size_t bytes = copy.size_bytes;
  const std::byte* from = copy.from_bytes != nullptr ? copy.from_bytes->data()
                          : copy.from != 0           ? memory.device_view(ordinal, copy.from, bytes)
                                                     : memory.pinned_view(copy.from_host, bytes);
  std::byte* to = copy.to != 0 ? memory.device_view(ordinal, copy.to, bytes)
                               : memory.pinned_view(copy.to_host, bytes);
  if (from == nullptr) throw IllegalAddress("a copy read outside live memory");
  if (to == nullptr) throw IllegalAddress("a copy wrote outside live memory");
  const auto part = [&](int64_t end) {
    return bytes * static_cast<size_t>(end) / static_cast<size_t>(num_steps);
  };
  std::memmove(to + part(step), from + part(step), part(step + 1) - part(step));
}

bool SimDriver::is_idle(int ordinal) const {
  return std::all_of(streams.begin(), streams.end(), [&](const auto& entry) {
    return entry.second.ordinal != ordinal || entry.second.queue.empty();
  });
}

int64_t SimDriver::advance(int64_t num_steps) {
  std::lock_guard<std::mutex> guard(mutex);
  int64_t done = 0;
  while (done < num_steps && step()) ++done;
  return done;
}

bool SimDriver::drain() {
  std::lock_guard<std::mutex> guard(mutex);
  while (step()) {
  }
  for (const auto& [id, stream] : streams) {
    if (!stream.queue.empty()) return false;
  }
  return true;
}

void SimDriver::close_gate(CUstream stream) {
  std::lock_guard<std::mutex> guard(mutex);
  Stream* found = find_stream(stream);
  if (found == nullptr) return violate("a gate needs a live stream");
  gates_.push_back(std::make_shared<bool>(false));
  enqueue(*found, Gate{gates_.back()});
}

void SimDriver::open_gates() {
  std::lock_guard<std::mutex> guard(mutex);
  for (const auto& gate : gates_) *gate = true;
  gates_.clear();
  changed_.notify_all();
}

void SimDriver::run_background() {
  std::mt19937_64 random(options.seed + 1);
  std::unique_lock<std::mutex> lock(mutex);
  while (!is_stopping_) {
    bool has_moved = false;
    for (uint64_t burst = random() % 8 + 1; burst > 0 && step(); --burst) has_moved = true;
    if (!has_moved) {
      changed_.wait_for(lock, std::chrono::milliseconds(2));
      continue;
    }
    lock.unlock();
    if (random() % 16 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
    } else {
      std::this_thread::yield();
    }
    lock.lock();
  }
}

}  // namespace graphsafe_gg::sim
