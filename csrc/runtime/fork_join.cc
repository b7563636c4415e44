// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/fork_join.h"

#include <algorithm>

#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

void wait(CUstream stream, const Event& event, int ordinal) {
  check(cuda_api().stream_wait_event(stream, event.get(), cuda::kEventWaitDefault),
        "cuStreamWaitEvent", ordinal);
}

}  // namespace

SideStreams::SideStreams(int ordinal) : start(ordinal), ordinal(ordinal) {
  for (OwnedStream& stream : streams) stream = OwnedStream(ordinal);
  for (Event& event : done) event = Event(ordinal);
}

Fork::Fork(const SideStreams& side, CUstream caller) : side_(side), caller_(caller) {}

// Delegates, so that the destructor joins if a wait fails half-way.
Fork::Fork(const SideStreams& side, CUstream caller, size_t num_lanes) : Fork(side, caller) {
  if (num_lanes < 2) return;
  side_.start.record(caller_);
  num_lanes = std::min(num_lanes, SideStreams::kCount);
  while (num_forked_ < num_lanes) {
    wait(side_.streams[num_forked_].get(), side_.start, side_.ordinal);
    ++num_forked_;
  }
}

Fork::~Fork() {
  for (; num_joined_ < num_forked_; ++num_joined_) {
    try {
      join(num_joined_);
    } catch (const std::exception& error) {
      report_once(error.what());
      check_noexcept(cuda_api().stream_synchronize(side_.streams[num_joined_].get()),
                     "cuStreamSynchronize", side_.ordinal);
    }
  }
}

CUstream Fork::lane(size_t index) const {
  return num_forked_ == 0 ? caller_ : side_.streams[index % num_forked_].get();
}

void Fork::join() {
  for (; num_joined_ < num_forked_; ++num_joined_) join(num_joined_);
}

void Fork::join(size_t index) {
  side_.done[index].record(side_.streams[index].get());
  wait(caller_, side_.done[index], side_.ordinal);
}

}  // namespace graphsafe_gg
