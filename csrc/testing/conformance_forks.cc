// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Checks of captures over several streams.
#include "testing/conformance.h"
#include "testing/sim_types.h"

namespace graphsafe_gg::testing {
namespace {

using sim::kModeThreadLocal;

// Makes work of `to` come after what `from` holds.
cuda::Result join(Bench& b, CUstream from, CUstream to) {
  const CUevent event = b.event();
  b.ok(b.cuda().event_record(event, from), "cuEventRecord");
  return b.graphs().stream_wait_event(to, event, 0);
}

cuda::Result end_code(Bench& b, CUstream stream) {
  CUgraph graph = nullptr;
  const cuda::Result result = b.graphs().stream_end_capture(stream, &graph);
  if (graph != nullptr) b.ok(b.graphs().graph_destroy(graph), "cuGraphDestroy");
  return result;
}

void plain_record_is_no_node(Bench& b) {
  const CUstream stream = b.stream();
  b.begin(stream, kModeThreadLocal);
  b.ok(b.cuda().event_record(b.event(), stream), "cuEventRecord");
  b.expect(b.node_types(b.end(stream)).empty(), "a plain record must add no node");
}

void fork_and_join_capture_both_streams(Bench& b) {
  const CUstream first = b.stream();
  const CUstream second = b.stream();
  const cuda::DevicePtr device = b.device_bytes(4);
  unsigned char* host = b.pinned();
  b.begin(first, kModeThreadLocal);
  b.ok(join(b, first, second), "the fork");
  b.copy_out(host, device, second);
  b.ok(join(b, second, first), "the join");
  const CUgraphExec exec = b.instantiate(b.end(first));
  b.launch(exec, first);
  b.synchronize(first);
  b.expect(host[0] == 4, "the forked stream's copy must run");
}

void fork_must_be_joined(Bench& b) {
  const CUstream first = b.stream();
  const CUstream second = b.stream();
  const cuda::DevicePtr device = b.device_bytes(0);
  b.begin(first, kModeThreadLocal);
  b.ok(join(b, first, second), "the fork");
  b.fill(device, 1, second);
  b.expect_code(end_code(b, first), sim::kCaptureUnjoined, "the end without a join");
}

void capture_ends_on_its_origin(Bench& b) {
  const CUstream first = b.stream();
  const CUstream second = b.stream();
  const cuda::DevicePtr device = b.device_bytes(0);
  b.begin(first, kModeThreadLocal);
  b.fill(device, 1, first);
  b.ok(join(b, first, second), "the fork");
  b.expect_code(end_code(b, second), sim::kCaptureUnmatched, "the end on the forked stream");
}

void wait_for_outside_work_is_refused(Bench& b) {
  const CUstream captured = b.stream();
  const CUstream outside = b.stream();
  const CUevent event = b.event();
  b.ok(b.cuda().event_record(event, outside), "cuEventRecord");
  b.begin(captured, kModeThreadLocal);
  b.expect_code(b.graphs().stream_wait_event(captured, event, 0), sim::kCaptureIsolation,
                "a wait for work outside");
}

void captures_do_not_merge(Bench& b) {
  const CUstream first = b.stream();
  const CUstream second = b.stream();
  const CUevent event = b.event();
  b.begin(first, kModeThreadLocal);
  b.begin(second, kModeThreadLocal);
  b.ok(b.cuda().event_record(event, first), "cuEventRecord");
  b.expect_code(b.graphs().stream_wait_event(second, event, 0), sim::kCaptureMerge,
                "a wait for another capture");
}

}  // namespace

std::vector<Check> fork_checks() {
  return {{"plain_record_is_no_node", plain_record_is_no_node},
          {"fork_and_join_capture_both_streams", fork_and_join_capture_both_streams},
          {"fork_must_be_joined", fork_must_be_joined},
          {"capture_ends_on_its_origin", capture_ends_on_its_origin},
          {"wait_for_outside_work_is_refused", wait_for_outside_work_is_refused},
          {"captures_do_not_merge", captures_do_not_merge}};
}

}  // namespace graphsafe_gg::testing
