// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Checks of what is legal while a stream is captured.
#include "kernels/kernel_blobs.h"
#include "testing/conformance.h"
#include "testing/sim_types.h"

namespace graphsafe_gg::testing {
namespace {

using sim::kModeGlobal;
using sim::kModeRelaxed;
using sim::kModeThreadLocal;

cuda::Result allocate(Bench& b) {
  void* host = nullptr;
  const cuda::Result result = b.cuda().mem_host_alloc(&host, 64, 0);
  if (result == cuda::kSuccess) b.ok(b.cuda().mem_free_host(host), "cuMemFreeHost");
  return result;
}

int status_of(Bench& b, CUstream stream) {
  int status = -1;
  b.ok(b.cuda().stream_is_capturing(stream, &status), "cuStreamIsCapturing");
  return status;
}

void expect_invalidated(Bench& b, CUstream stream) {
  b.expect(status_of(b, stream) == sim::kCaptureStatusInvalidated, "the capture must be invalid");
  CUgraph graph = nullptr;
  b.expect_code(b.graphs().stream_end_capture(stream, &graph), sim::kCaptureInvalidated,
                "the end of an invalid capture");
  b.expect(graph == nullptr, "an invalid capture must give no graph");
}

void captured_work_does_not_run(Bench& b) {
  const CUstream stream = b.stream();
  const cuda::DevicePtr device = b.device_bytes(5);
  unsigned char* host = b.pinned();
  b.begin(stream, kModeThreadLocal);
  b.copy_out(host, device, stream);
  b.end(stream);
  b.synchronize(stream);
  b.expect(host[0] == 0, "captured work must wait for a launch");
}

void capture_status_is_reported(Bench& b) {
  const CUstream stream = b.stream();
  b.expect(status_of(b, stream) == sim::kCaptureNone, "no capture yet");
  b.begin(stream, kModeThreadLocal);
  b.expect(status_of(b, stream) == sim::kCaptureActive, "an active capture");
  b.end(stream);
  b.expect(status_of(b, stream) == sim::kCaptureNone, "no capture any more");
}

void capture_begins_once(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.expect_code(b.graphs().stream_begin_capture(stream, kModeThreadLocal), sim::kIllegalState,
                "a second begin");
}

void allocation_invalidates_own_capture(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.expect_code(allocate(b), sim::kCaptureUnsupported, "an allocation in capture");
  expect_invalidated(b, stream);
}

void relaxed_thread_may_allocate_in_capture(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  const int earlier = b.set_mode(kModeRelaxed);
  b.expect(earlier == kModeGlobal, "a thread's first mode must be global");
  b.ok(allocate(b), "an allocation of a relaxed thread");
  b.expect(b.set_mode(earlier) == kModeRelaxed, "the exchange must return the mode before");
  b.end(stream);
}

void global_capture_forbids_other_threads(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeGlobal);
  b.on_other_thread(
      [&] { b.expect_code(allocate(b), sim::kCaptureUnsupported, "another thread's allocation"); });
  expect_invalidated(b, stream);
}

void thread_local_capture_ignores_other_threads(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.on_other_thread([&] { b.ok(allocate(b), "another thread's allocation"); });
  b.end(stream);
}

void relaxed_thread_spares_a_global_capture(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeGlobal);
  b.on_other_thread([&] {
    b.set_mode(kModeRelaxed);
    b.ok(allocate(b), "a relaxed thread's allocation");
  });
  b.end(stream);
}

void event_query_disturbs_a_global_capture(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.begin(stream, kModeGlobal);
  b.on_other_thread([&] {
    b.expect_code(b.cuda().event_query(event), sim::kCaptureUnsupported, "another's query");
  });
  expect_invalidated(b, stream);
}

void event_query_of_a_relaxed_thread_is_harmless(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.begin(stream, kModeGlobal);
  b.on_other_thread([&] {
    b.set_mode(kModeRelaxed);
    b.ok(b.cuda().event_query(event), "a relaxed thread's query");
  });
  b.end(stream);
}

void event_wait_in_capture_is_unsupported(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.begin(stream, kModeThreadLocal);
  b.ok(b.cuda().event_record_with_flags(event, stream, cuda::kEventRecordExternal), "the record");
  b.expect_code(b.cuda().event_synchronize(event), sim::kCaptureUnsupported, "a wait in capture");
  expect_invalidated(b, stream);
}

void captured_event_cannot_be_queried(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.begin(stream, kModeThreadLocal);
  b.ok(b.cuda().event_record(event, stream), "cuEventRecord");
  b.set_mode(kModeRelaxed);
  b.expect_code(b.cuda().event_query(event), sim::kCapturedEvent, "a query");
  expect_invalidated(b, stream);
}

void captured_event_cannot_be_waited_for(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.begin(stream, kModeThreadLocal);
  b.ok(b.cuda().event_record(event, stream), "cuEventRecord");
  b.set_mode(kModeRelaxed);
  b.expect_code(b.cuda().event_synchronize(event), sim::kCapturedEvent, "a wait");
  expect_invalidated(b, stream);
}

void external_record_leaves_the_event_free(Bench& b) {
  const CUstream stream = b.stream();
  const CUevent event = b.event();
  b.begin(stream, kModeThreadLocal);
  b.ok(b.cuda().event_record_with_flags(event, stream, cuda::kEventRecordExternal), "the record");
  b.set_mode(kModeRelaxed);
  b.ok(b.cuda().event_query(event), "a query before any launch");
  b.end(stream);
}

void captured_stream_cannot_be_waited_for(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.set_mode(kModeRelaxed);
  b.expect_code(b.graphs().stream_synchronize(stream), sim::kCaptureUnsupported, "a wait");
  expect_invalidated(b, stream);
}

void context_wait_disturbs_any_capture(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.on_other_thread([&] {
    b.set_mode(kModeRelaxed);
    b.expect_code(b.cuda().ctx_synchronize(), sim::kCaptureUnsupported, "cuCtxSynchronize");
  });
  expect_invalidated(b, stream);
}

void invalid_capture_refuses_work(Bench& b) {
  const CUstream stream = b.stream();
  const cuda::DevicePtr device = b.device_bytes(0);
  b.begin(stream, kModeThreadLocal);
  static_cast<void>(allocate(b));
  b.expect_code(b.graphs().memset_d8_async(device, 1, 8, stream), sim::kCaptureInvalidated,
                "a memset after the failure");
}

void capture_ends_on_its_thread(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.on_other_thread([&] {
    CUgraph graph = nullptr;
    b.expect_code(b.graphs().stream_end_capture(stream, &graph), sim::kCaptureWrongThread,
                  "another thread's end");
  });
}

void legacy_stream_conflicts_with_a_blocking_capture(Bench& b) {
  const CUstream stream = b.stream(/*flags=*/0);
  const cuda::DevicePtr device = b.device_bytes(0);
  b.begin(stream, kModeThreadLocal);
  b.expect_code(b.graphs().memset_d8_async(device, 1, 8, nullptr), sim::kCaptureImplicit,
                "a memset on the legacy stream");
}

void library_load_in_capture_is_unsupported(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  CUlibrary library = nullptr;
  b.expect_code(b.cuda().library_load_data(&library, kernel_blobs().front().begin, nullptr, nullptr,
                                           0, nullptr, nullptr, 0),
                sim::kCaptureUnsupported, "cuLibraryLoadData");
}

}  // namespace

std::vector<Check> capture_checks() {
  return {
      {"captured_work_does_not_run", captured_work_does_not_run},
      {"capture_status_is_reported", capture_status_is_reported},
      {"capture_begins_once", capture_begins_once},
      {"allocation_invalidates_own_capture", allocation_invalidates_own_capture},
      {"relaxed_thread_may_allocate_in_capture", relaxed_thread_may_allocate_in_capture},
      {"global_capture_forbids_other_threads", global_capture_forbids_other_threads},
      {"thread_local_capture_ignores_other_threads", thread_local_capture_ignores_other_threads},
      {"relaxed_thread_spares_a_global_capture", relaxed_thread_spares_a_global_capture},
      {"event_query_disturbs_a_global_capture", event_query_disturbs_a_global_capture},
      {"event_query_of_a_relaxed_thread_is_harmless", event_query_of_a_relaxed_thread_is_harmless},
      {"event_wait_in_capture_is_unsupported", event_wait_in_capture_is_unsupported},
      {"captured_event_cannot_be_queried", captured_event_cannot_be_queried},
      {"captured_event_cannot_be_waited_for", captured_event_cannot_be_waited_for},
      {"external_record_leaves_the_event_free", external_record_leaves_the_event_free},
      {"captured_stream_cannot_be_waited_for", captured_stream_cannot_be_waited_for},
      {"context_wait_disturbs_any_capture", context_wait_disturbs_any_capture},
      {"invalid_capture_refuses_work", invalid_capture_refuses_work},
      {"capture_ends_on_its_thread", capture_ends_on_its_thread},
      {"legacy_stream_conflicts_with_a_blocking_capture",
       legacy_stream_conflicts_with_a_blocking_capture},
      {"library_load_in_capture_is_unsupported", library_load_in_capture_is_unsupported, 1, true},
  };
}

}  // namespace graphsafe_gg::testing
