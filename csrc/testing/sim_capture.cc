// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The rules of stream capture.
#include "testing/sim_calls.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {

Capture* SimDriver::capture_of(const Stream& stream) {
  const auto found = captures.find(stream.capture);
  return stream.capture == 0 || found == captures.end() ? nullptr : &found->second;
}

// cuThreadExchangeStreamCaptureMode describes the three modes.
Result SimDriver::check_unsafe() {
  const int mode = capture_mode();
  if (mode == kModeRelaxed) return kSuccess;
  bool is_prohibited = false;
  for (auto& [id, capture] : captures) {
    const bool is_own = capture.thread == std::this_thread::get_id();
    const bool is_disturbed =
        is_own ? capture.mode != kModeRelaxed : mode == kModeGlobal && capture.mode == kModeGlobal;
    if (!is_disturbed) continue;
    capture.is_valid = false;
    is_prohibited = true;
  }
  return is_prohibited ? kCaptureUnsupported : kSuccess;
}

Result SimDriver::conflict(uint64_t capture) {
  const auto found = captures.find(capture);
  if (found != captures.end()) found->second.is_valid = false;
  return kCaptureUnsupported;
}

Result SimDriver::conflict_with_device(int ordinal) {
  Result result = kSuccess;
  for (auto& [id, stream] : streams) {
    if (stream.ordinal == ordinal && stream.capture != 0) result = conflict(stream.capture);
  }
  return result;
}

Result SimDriver::capture_node(Stream& stream, Work work) {
  Capture& capture = captures.at(stream.capture);
  if (!capture.is_valid) return kCaptureInvalidated;
  GraphBody& body = *graphs.at(capture.graph);
  std::vector<size_t>& ends = capture.ends[id_of(stream)];
  body.nodes.push_back({std::move(work), ends});
  ends = {body.nodes.size() - 1};
  return kSuccess;
}

namespace calls {

Result stream_is_capturing(CUstream stream, int* status) {
  Call call("cuStreamIsCapturing");
  Stream* found = call.is_open() ? call->find_stream(stream) : nullptr;
  if (!call.enter(found == nullptr ? -1 : found->ordinal)) return call.result();
  if (found == nullptr) return call.done(kInvalidHandle);
  const Capture* capture = call->capture_of(*found);
  *status = capture == nullptr  ? kCaptureNone
            : capture->is_valid ? kCaptureActive
                                : kCaptureStatusInvalidated;
  return kSuccess;
}

Result stream_get_capture_info(CUstream stream, int* status, unsigned long long* id, CUgraph* graph,
                               const void** dependencies, const void** edges,
                               size_t* num_dependencies) {
  Call call("cuStreamGetCaptureInfo");
  Stream* found = call.is_open() ? call->find_stream(stream) : nullptr;
  if (!call.enter(found == nullptr ? -1 : found->ordinal)) return call.result();
  if (found == nullptr) return call.done(kInvalidHandle);
  if (dependencies != nullptr || edges != nullptr) return call.done(kNotSupported);
  const Capture* capture = call->capture_of(*found);
  *status = capture == nullptr  ? kCaptureNone
            : capture->is_valid ? kCaptureActive
                                : kCaptureStatusInvalidated;
  if (*status != kCaptureActive) return kSuccess;
  if (id != nullptr) *id = found->capture;
  if (graph != nullptr) *graph = to_handle<CUgraph>(capture->graph);
  if (num_dependencies != nullptr) *num_dependencies = capture->ends.at(call->id_of(*found)).size();
  return kSuccess;
}

Result thread_exchange_stream_capture_mode(int* mode) {
  Call call("cuThreadExchangeStreamCaptureMode");
  if (!call.is_open()) return call.result();
  if (!call.enter(call->current_ordinal(), /*is_device_call=*/false)) return call.result();
  if (*mode < kModeGlobal || *mode > kModeRelaxed) return call.done(kInvalidValue);
  std::swap(*mode, call->capture_mode());
  return kSuccess;
}

Result stream_begin_capture(CUstream stream, int mode) {
  Call call("cuStreamBeginCapture");
  Stream* found = call.is_open() ? call->find_stream(stream) : nullptr;
  if (!call.enter(found == nullptr ? -1 : found->ordinal)) return call.result();
  if (found == nullptr) return call.done(kInvalidHandle);
  if (stream == nullptr) return call.done(kCaptureUnsupported);
  if (found->capture != 0) return call.done(kIllegalState);
  const uint64_t graph = call->new_id();
  call->graphs[graph] = std::make_shared<GraphBody>();
  const uint64_t id = call->new_id();
  found->capture = id;
  call->captures[id] = {to_id(stream), mode, std::this_thread::get_id(), true, graph, {}};
  call->captures[id].ends[to_id(stream)] = {};
  return kSuccess;
}

namespace {

// A fork is joined when the origin's next node would come after all of its work.
bool is_joined(const Capture& capture, const GraphBody& body) {
  std::set<size_t> reached;
  std::vector<size_t> pending = capture.ends.at(capture.origin);
  while (!pending.empty()) {
    const size_t node = pending.back();
    pending.pop_back();
    if (!reached.insert(node).second) continue;
    const auto& dependencies = body.nodes[node].dependencies;
    pending.insert(pending.end(), dependencies.begin(), dependencies.end());
  }
  for (const auto& [stream, ends] : capture.ends) {
    for (const size_t node : ends) {
      if (reached.count(node) == 0) return false;
    }
  }
  return true;
}

}  // namespace

Result stream_end_capture(CUstream stream, CUgraph* graph) {
  Call call("cuStreamEndCapture");
  *graph = nullptr;
  Stream* found = call.is_open() ? call->find_stream(stream) : nullptr;
  if (!call.enter(found == nullptr ? -1 : found->ordinal)) return call.result();
  if (found == nullptr) return call.done(kInvalidHandle);
  Capture* capture = call->capture_of(*found);
  if (capture == nullptr) return call.done(kIllegalState);
  if (capture->origin != to_id(stream)) {
    capture->is_valid = false;
    return call.done(kCaptureUnmatched);
  }
  if (capture->mode != kModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return call.done(kCaptureWrongThread);
  }
  Result result = capture->is_valid ? kSuccess : kCaptureInvalidated;
  if (result == kSuccess && !is_joined(*capture, *call->graphs.at(capture->graph))) {
    result = kCaptureUnjoined;
  }
  if (result == kSuccess) {
    *graph = to_handle<CUgraph>(capture->graph);
  } else {
    call->graphs.erase(capture->graph);
  }
  const uint64_t id = found->capture;
  for (auto& [other, candidate] : call->streams) {
    if (candidate.capture == id) candidate.capture = 0;
  }
  call->captures.erase(id);
  return call.done(result);
}

}  // namespace calls
}  // namespace graphsafe_gg::sim
