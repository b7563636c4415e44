// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Spreads the work of one call over side streams: they start after what the caller's stream holds,
// and the caller's stream goes on after them.
#pragma once

#include <array>

#include "runtime/event.h"
#include "runtime/stream.h"

namespace graphsafe_gg {

// The side streams of a device and their events. One Fork at a time: whoever owns the streams
// locks. A wait takes the event as last recorded at the call, so that the next Fork may record it
// again before the GPU has come this far.
struct SideStreams {
  static constexpr size_t kCount = 4;

  // The current context must be the device's.
  explicit SideStreams(int ordinal);

  std::array<OwnedStream, kCount> streams;
  std::array<Event, kCount> done;
  Event start;
  const int ordinal;
};

class Fork {
 public:
  // With fewer than two lanes nothing is forked: lane 0 is the caller's stream.
  Fork(const SideStreams& side, CUstream caller, size_t num_lanes);
  // Joins what join() did not reach, so that no error path lets side work outlive the operands. The
  // host waits for a lane that cannot be joined.
  ~Fork();
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  CUstream lane(size_t index) const;
  void join();

 private:
  Fork(const SideStreams& side, CUstream caller);
  void join(size_t index);

  const SideStreams& side_;
  const CUstream caller_;
  size_t num_forked_ = 0;
  size_t num_joined_ = 0;
};

}  // namespace graphsafe_gg
