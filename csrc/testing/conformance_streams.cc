// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Checks of streams, events, memory and contexts outside a capture.
#include "testing/conformance.h"
#include "testing/sim_types.h"

namespace graphsafe_gg::testing {
namespace {

void event_never_recorded_is_done(Bench& b) { b.ok(b.cuda().event_query(b.event()), "a query"); }

void event_is_pending_until_reached(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.close_gate(stream);
  b.ok(b.cuda().event_record(event, stream), "cuEventRecord");
  b.expect_code(b.cuda().event_query(event), sim::kNotReady, "a query behind a gate");
  b.open_gates();
  b.ok(b.cuda().event_synchronize(event), "cuEventSynchronize");
  b.ok(b.cuda().event_query(event), "a query after the wait");
}

void event_recorded_again_is_pending_again(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.ok(b.cuda().event_record(event, stream), "cuEventRecord");
  b.ok(b.cuda().event_synchronize(event), "cuEventSynchronize");
  b.close_gate(stream);
  b.ok(b.cuda().event_record(event, stream), "cuEventRecord");
  b.expect_code(b.cuda().event_query(event), sim::kNotReady, "a query of the second record");
}

void copy_is_asynchronous(Bench& b) {
  const CUstream stream = b.stream();
  const cuda::DevicePtr device = b.device_bytes(7);
  unsigned char* host = b.pinned();
  b.close_gate(stream);
  b.copy_out(host, device, stream);
  b.expect(host[0] == 0, "bytes must not arrive while the stream is held");
  b.open_gates();
  b.synchronize(stream);
  b.expect(host[0] == 7 && host[Bench::kBytes - 1] == 7, "bytes must arrive after the wait");
}

void stream_keeps_order(Bench& b) {
  const CUstream stream = b.stream();
  const cuda::DevicePtr device = b.device_bytes(0);
  unsigned char* host = b.pinned();
  b.fill(device, 1, stream);
  b.copy_out(host, device, stream);
  b.fill(device, 2, stream);
  b.synchronize(stream);
  b.expect(host[0] == 1, "a copy must come before the fill that follows it");
}

void streams_overtake_each_other(Bench& b) {
  const CUstream held = b.stream();
  const CUstream other = b.stream();
  b.close_gate(held);
  b.fill(b.device_bytes(0), 1, other);
  b.synchronize(other);
  b.expect_code(b.graphs().stream_query(held), sim::kNotReady, "the held stream's query");
}

void wait_event_orders_streams(Bench& b) {
  const CUstream first = b.stream();
  const CUstream second = b.stream();
  const CUevent event = b.event();
  b.close_gate(first);
  b.ok(b.cuda().event_record(event, first), "cuEventRecord");
  b.ok(b.graphs().stream_wait_event(second, event, 0), "cuStreamWaitEvent");
  b.fill(b.device_bytes(0), 1, second);
  b.expect_code(b.graphs().stream_query(second), sim::kNotReady, "the waiting stream's query");
  b.open_gates();
  b.synchronize(second);
}

void external_record_needs_a_capture(Bench& b) {
  const cuda::Result result =
      b.cuda().event_record_with_flags(b.event(), b.stream(), cuda::kEventRecordExternal);
  b.expect_code(result, sim::kIllegalState, "an external record outside a capture");
}

void mapped_memory_has_a_device_address(Bench& b) {
  const CUstream stream = b.stream();
  unsigned char* host = b.pinned();
  cuda::DevicePtr device = 0;
  b.ok(b.cuda().mem_host_get_device_pointer(&device, host, 0), "cuMemHostGetDevicePointer");
  b.fill(device, 9, stream);
  b.synchronize(stream);
  b.expect(host[Bench::kBytes - 1] == 9, "a fill of the device address must reach the host's");
}

void contexts_are_a_stack(Bench& b) {
  CUcontext current = nullptr;
  b.ok(b.cuda().ctx_push_current(b.context(0)), "cuCtxPushCurrent");
  b.ok(b.cuda().ctx_pop_current(&current), "cuCtxPopCurrent");
  b.expect(current == b.context(0), "a pop must return what was pushed");
  b.ok(b.cuda().ctx_get_current(&current), "cuCtxGetCurrent");
  b.expect(current == b.context(0), "the context below must be current again");
}

void allocation_needs_a_context(Bench& b) {
  b.ok(b.graphs().ctx_set_current(nullptr), "cuCtxSetCurrent");
  void* host = nullptr;
  CUevent event = nullptr;
  b.expect_code(b.cuda().mem_host_alloc(&host, 64, 0), sim::kInvalidContext, "cuMemHostAlloc");
  b.expect_code(b.cuda().event_create(&event, 0), sim::kInvalidContext, "cuEventCreate");
}

void pop_of_no_context_fails(Bench& b) {
  b.ok(b.graphs().ctx_set_current(nullptr), "cuCtxSetCurrent");
  CUcontext current = nullptr;
  b.expect_code(b.cuda().ctx_pop_current(&current), sim::kInvalidContext, "cuCtxPopCurrent");
}

void event_of_another_context_is_refused(Bench& b) {
  const CUevent event = b.event();
  b.ok(b.cuda().ctx_push_current(b.context(1)), "cuCtxPushCurrent");
  const CUstream stream = b.stream();
  const cuda::Result result = b.cuda().event_record(event, stream);
  CUcontext popped = nullptr;
  b.ok(b.cuda().ctx_pop_current(&popped), "cuCtxPopCurrent");
  b.expect_code(result, sim::kInvalidHandle, "a record on another context's stream");
}

void context_wait_covers_every_stream(Bench& b) {
  const CUstream first = b.stream();
  const CUstream second = b.stream();
  const cuda::DevicePtr device = b.device_bytes(3);
  unsigned char* host = b.pinned();
  b.copy_out(host, device, first);
  b.fill(b.device_bytes(0), 1, second);
  b.ok(b.cuda().ctx_synchronize(), "cuCtxSynchronize");
  b.expect(host[0] == 3, "bytes must have arrived");
  b.ok(b.graphs().stream_query(second), "the other stream's query");
}

void error_names_are_cudas(Bench& b) {
  const char* name = nullptr;
  b.ok(b.cuda().get_error_name(sim::kCaptureUnsupported, &name), "cuGetErrorName");
  b.expect(std::string(name) == "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "the name of 900");
}

}  // namespace

std::vector<Check> stream_checks() {
  return {{"event_never_recorded_is_done", event_never_recorded_is_done},
          {"event_is_pending_until_reached", event_is_pending_until_reached},
          {"event_recorded_again_is_pending_again", event_recorded_again_is_pending_again},
          {"copy_is_asynchronous", copy_is_asynchronous},
          {"stream_keeps_order", stream_keeps_order},
          {"streams_overtake_each_other", streams_overtake_each_other},
          {"wait_event_orders_streams", wait_event_orders_streams},
          {"external_record_needs_a_capture", external_record_needs_a_capture},
          {"mapped_memory_has_a_device_address", mapped_memory_has_a_device_address},
          {"contexts_are_a_stack", contexts_are_a_stack},
          {"allocation_needs_a_context", allocation_needs_a_context},
          {"pop_of_no_context_fails", pop_of_no_context_fails},
          {"event_of_another_context_is_refused", event_of_another_context_is_refused, 2},
          {"context_wait_covers_every_stream", context_wait_covers_every_stream},
          {"error_names_are_cudas", error_names_are_cudas}};
}

}  // namespace graphsafe_gg::testing
