// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Calls about streams and events.
#include "testing/sim_calls.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {

Event* SimDriver::find_event(CUevent event) {
  const auto found = events.find(to_id(event));
  return found == events.end() ? nullptr : &found->second;
}

namespace calls {
namespace {

int ordinal_of(Call& call, CUstream stream) {
  const Stream* found = call.is_open() ? call->find_stream(stream) : nullptr;
  return found == nullptr ? -1 : found->ordinal;
}

int ordinal_of(Call& call, CUevent event) {
  const Event* found = call.is_open() ? call->find_event(event) : nullptr;
  return found == nullptr ? -1 : found->ordinal;
}

Result record(Call& call, CUevent event, CUstream stream, unsigned flags) {
  if (!call.enter(ordinal_of(call, stream))) return call.result();
  Event* recorded = call->find_event(event);
  Stream* on = call->find_stream(stream);
  if (recorded == nullptr || on == nullptr || recorded->ordinal != on->ordinal) {
    return call.done(kInvalidHandle);
  }
  if (flags > cuda::kEventRecordExternal) return call.done(kInvalidValue);
  const bool is_external = flags == cuda::kEventRecordExternal;
  Capture* capture = call->capture_of(*on);
  if (capture == nullptr) {
    if (is_external) return call.done(kIllegalState);
    if (const Result implicit = call->check_implicit(*on)) return call.done(implicit);
    return call.done(call->enqueue(*on, EventRecord{to_id(event)}));
  }
  if (!capture->is_valid) return call.done(kCaptureInvalidated);
  if (is_external) return call.done(call->capture_node(*on, EventRecord{to_id(event)}));
  recorded->capture = on->capture;
  recorded->capture_nodes = capture->ends[call->id_of(*on)];
  return kSuccess;
}

// Joins the stream to the capture that the event was recorded in, as a fork or a join.
Result wait_in_capture(Call& call, Stream& stream, const Event& event) {
  const auto found = call->captures.find(event.capture);
  if (found == call->captures.end()) return kCapturedEvent;
  Capture& capture = found->second;
  if (!capture.is_valid) return kCaptureInvalidated;
  if (stream.capture != 0 && stream.capture != event.capture) {
    capture.is_valid = false;
    call->conflict(stream.capture);
    return kCaptureMerge;
  }
  stream.capture = event.capture;
  std::vector<size_t>& ends = capture.ends[call->id_of(stream)];
  std::set<size_t> merged(ends.begin(), ends.end());
  merged.insert(event.capture_nodes.begin(), event.capture_nodes.end());
  ends.assign(merged.begin(), merged.end());
  return kSuccess;
}

// Status of the event for a host; kNotReady while its latest record is not reached.
Result check_event(Call& call, CUevent event) {
  const Event* found = call->find_event(event);
  if (found == nullptr) return kInvalidHandle;
  if (call->current_ordinal() < 0) return kInvalidContext;
  if (found->capture != 0) {
    call->conflict(found->capture);
    return kCapturedEvent;
  }
  if (const Result unsafe = call->check_unsafe()) return unsafe;
  return found->done >= found->recorded ? kSuccess : kNotReady;
}

Result check_stream(Call& call, const Stream& stream) {
  if (stream.capture != 0) return call->conflict(stream.capture);
  if (const Result unsafe = call->check_unsafe()) return unsafe;
  return stream.queue.empty() ? kSuccess : kNotReady;
}

}  // namespace

Result event_create(CUevent* event, unsigned) {
  Call call("cuEventCreate");
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  const uint64_t id = call->new_id();
  call->events[id].ordinal = ordinal;
  *event = to_handle<CUevent>(id);
  return kSuccess;
}

Result event_destroy(CUevent event) {
  Call call("cuEventDestroy");
  if (!call.enter(ordinal_of(call, event))) return call.result();
  return call.done(call->events.erase(to_id(event)) == 0 ? kInvalidHandle : kSuccess);
}

Result event_record(CUevent event, CUstream stream) {
  Call call("cuEventRecord");
  return record(call, event, stream, cuda::kEventRecordDefault);
}

Result event_record_with_flags(CUevent event, CUstream stream, unsigned flags) {
  Call call("cuEventRecordWithFlags");
  return record(call, event, stream, flags);
}

Result event_query(CUevent event) {
  Call call("cuEventQuery");
  if (!call.enter(ordinal_of(call, event))) return call.result();
  const Result status = check_event(call, event);
  if (status == kNotReady) {
    for (int64_t i = 0; i < call->options.steps_per_query && call->step(); ++i) {
    }
  }
  return call.done(status);
}

Result event_synchronize(CUevent event) {
  Call call("cuEventSynchronize");
  const int ordinal = ordinal_of(call, event);
  if (!call.enter(ordinal)) return call.result();
  const Result status = check_event(call, event);
  if (status != kNotReady) return call.done(status);
  return call.done(call->wait(call.lock(), ordinal, [&] {
    const Event* found = call->find_event(event);
    return found == nullptr || found->done >= found->recorded;
  }));
}

Result stream_create(CUstream* stream, unsigned flags) {
  Call call("cuStreamCreate");
  if (!call.is_open()) return call.result();
  const int ordinal = call->current_ordinal();
  if (!call.enter(ordinal)) return call.result();
  if (ordinal < 0) return call.done(kInvalidContext);
  const uint64_t id = call->new_id();
  call->streams[id] = {ordinal, flags, {}, 0};
  *stream = to_handle<CUstream>(id);
  return kSuccess;
}

// Queued work goes on; the stream vanishes when it is done. Here that is at once.
Result stream_destroy(CUstream stream) {
  Call call("cuStreamDestroy");
  const int ordinal = ordinal_of(call, stream);
  if (!call.enter(ordinal)) return call.result();
  Stream* found = stream == nullptr ? nullptr : call->find_stream(stream);
  if (found == nullptr) return call.done(kInvalidHandle);
  if (found->capture != 0) return call.done(call->conflict(found->capture));
  const Result status =
      call->wait(call.lock(), ordinal, [&] { return call->find_stream(stream)->queue.empty(); });
  call->streams.erase(to_id(stream));
  return call.done(status);
}

Result stream_query(CUstream stream) {
  Call call("cuStreamQuery");
  if (!call.enter(ordinal_of(call, stream))) return call.result();
  const Stream* found = call->find_stream(stream);
  return call.done(found == nullptr ? kInvalidHandle : check_stream(call, *found));
}

Result stream_synchronize(CUstream stream) {
  Call call("cuStreamSynchronize");
  const int ordinal = ordinal_of(call, stream);
  if (!call.enter(ordinal)) return call.result();
  const Stream* found = call->find_stream(stream);
  if (found == nullptr) return call.done(kInvalidHandle);
  const Result status = check_stream(call, *found);
  if (status != kNotReady) return call.done(status);
  return call.done(call->wait(call.lock(), ordinal, [&] {
    const Stream* waited = call->find_stream(stream);
    return waited == nullptr || waited->queue.empty();
  }));
}

Result stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  Call call("cuStreamWaitEvent");
  if (!call.enter(ordinal_of(call, stream))) return call.result();
  Stream* found = call->find_stream(stream);
  const Event* waited = call->find_event(event);
  if (found == nullptr || waited == nullptr) return call.done(kInvalidHandle);
  const bool is_external = flags == kEventWaitExternal;
  if (waited->capture != 0 && !is_external) {
    return call.done(wait_in_capture(call, *found, *waited));
  }
  Capture* capture = call->capture_of(*found);
  if (capture == nullptr) {
    if (is_external) return call.done(kInvalidValue);
    return call.done(call->enqueue(*found, EventWait{to_id(event)}));
  }
  if (!capture->is_valid) return call.done(kCaptureInvalidated);
  if (is_external) return call.done(call->capture_node(*found, EventWait{to_id(event)}));
  capture->is_valid = false;
  return call.done(kCaptureIsolation);
}

}  // namespace calls
}  // namespace graphsafe_gg::sim
