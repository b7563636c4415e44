// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/early_copy.h"

#include <cstring>
#include <string>

#include "kernels/ticket.h"
#include "runtime/call_sites.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"
#include "runtime/group_sizes.h"
#include "runtime/wait.h"

namespace graphsafe_gg {
namespace {

constexpr Kernel kPublish = {"publish", "gg_publish_sizes"};
constexpr unsigned kPublishThreads = 256;

void release_graph(void* slot) {
  static_cast<Slot*>(slot)->num_graphs.fetch_sub(1, std::memory_order_release);
}

// The graph under capture, and every clone of it, holds the slot until it is destroyed.
void retain_for_graph(const CudaApi& api, Slot& slot, CUgraph graph, int ordinal) {
  CUuserObject object = nullptr;
  check(
      api.user_object_create(&object, &slot, &release_graph, 1, cuda::kUserObjectNoDestructorSync),
      "cuUserObjectCreate", ordinal);
  slot.num_graphs.fetch_add(1, std::memory_order_acquire);
  const cuda::Result retained =
      api.graph_retain_user_object(graph, object, 1, cuda::kGraphUserObjectMove);
  if (retained == cuda::kSuccess) return;
  check_noexcept(api.user_object_release(object, 1), "cuUserObjectRelease", ordinal);
  check(retained, "cuGraphRetainUserObject", ordinal);
}

// Launches the kernel that writes sizes and stamp as a ticket.
void publish(DeviceState& device, const GroupSizesView& sizes, void* ticket, CUstream stream) {
  PublishArgs args{sizes.data, ticket, sizes.payload_bytes(), device.ordinal()};
  void* params[] = {&args};
  check(cuda_api().launch_kernel(device.function(kPublish), 1, 1, 1, kPublishThreads, 1, 1, 0,
                                 stream, params, nullptr),
        "cuLaunchKernel", device.ordinal());
}

// Records the slot's event behind what the stream holds, and lets a graph under capture hold the
// slot.
void record_copy(DeviceState& device, Slot& slot, CUstream stream) {
  const CudaApi& api = cuda_api();
  int capture_status = 0;
  CUgraph graph = nullptr;
  check(api.stream_get_capture_info(stream, &capture_status, nullptr, &graph, nullptr, nullptr,
                                    nullptr),
        "cuStreamGetCaptureInfo", device.ordinal());
  const bool is_captured = capture_status == cuda::kStreamCaptureStatusActive;
  // The external flag makes the record a node, done anew at each launch; outside a capture it is
  // illegal.
  check(api.event_record_with_flags(
            slot.event.get(), stream,
            is_captured ? cuda::kEventRecordExternal : cuda::kEventRecordDefault),
        "cuEventRecordWithFlags", device.ordinal());
  slot.is_untracked.store(false, std::memory_order_relaxed);
  if (is_captured) retain_for_graph(api, slot, graph, device.ordinal());
  auto& calls = is_captured ? device.counters().captured_copies : device.counters().eager_copies;
  calls.fetch_add(1, std::memory_order_relaxed);
}

// False if the slot does not hold one whole ticket of these sizes.
bool read_slot(const Slot& slot, const GroupSizesView& view, HostSizes& out) {
  TicketHeader header;
  std::memcpy(&header, slot.host, sizeof(header));
  if (header.size_bytes != static_cast<uint64_t>(view.payload_bytes())) return false;
  const int64_t num_words = ticket_payload_words(view.payload_bytes());
  thread_local std::vector<uint32_t> words;
  words.resize(static_cast<size_t>(num_words));
  std::memcpy(words.data(), static_cast<const char*>(slot.host) + sizeof(header),
              static_cast<size_t>(num_words * kTicketWordBytes));
  uint64_t checksum = ticket_checksum_term(header.stamp, -1);
  for (int64_t i = 0; i < num_words; ++i) {
    checksum += ticket_checksum_term(words[static_cast<size_t>(i)], i);
  }
  if (checksum != header.checksum) return false;
  out.sizes = read_group_sizes(words.data(), view.type, view.count);
  out.stamp = header.stamp;
  return true;
}

}  // namespace

void prepare_publish(DeviceState& device) { device.load_function(kPublish, 0); }

void prepare_early_copy(DeviceState& device, int64_t payload_bytes, const void* ticket) {
  prepare_publish(device);
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  device.slots().ensure(ticket, static_cast<size_t>(ticket_bytes(payload_bytes)));
}

void issue_early_copy(DeviceState& device, const GroupSizesView& sizes, void* ticket,
                      CUstream stream) {
  const CudaApi& api = cuda_api();
  const ContextGuard guard(api, device.context(), device.ordinal());
  const auto bytes = static_cast<size_t>(ticket_bytes(sizes.payload_bytes()));
  const SlotRef found = device.slots().find(ticket, bytes);
  Slot& slot = found ? *found.get() : device.slots().sink(bytes);
  publish(device, sizes, ticket, stream);
  slot.is_untracked.store(true, std::memory_order_relaxed);
  check(api.memcpy_dtoh_async(slot.host, reinterpret_cast<cuda::DevicePtr>(ticket), bytes, stream),
        "cuMemcpyDtoHAsync", device.ordinal());
  record_copy(device, slot, stream);
}

void issue_ticket(DeviceState& device, const GroupSizesView& sizes, void* ticket, CUstream stream) {
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  publish(device, sizes, ticket, stream);
}

void issue_copy_to_slot(DeviceState& device, const GroupSizesView& sizes, Slot& slot,
                        CUstream stream) {
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  slot.is_untracked.store(true, std::memory_order_relaxed);
  publish(device, sizes, slot.device, stream);
  record_copy(device, slot, stream);
}

std::vector<int64_t> wait_for_slot(DeviceState& device, const GroupSizesView& sizes,
                                   const Slot& slot, Site& site) {
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  wait_for_event(slot.event, site);
  HostSizes out{{}, 0, Fallback::kNone};
  if (read_slot(slot, sizes, out)) return out.sizes;
  const auto* header = static_cast<const TicketHeader*>(slot.host);
  const std::string site_name = call_site_name(site.id);
  if (header->stamp == 0) {
    throw InvalidArgument("early copy: slot " + site_name +
                          " must be copied to before it is read; no copy has run.");
  }
  throw InvalidArgument("early copy: slot " + site_name +
                        " must be read before the next copy to it starts; one has started.");
}

HostSizes wait_for_ticket(DeviceState& device, const GroupSizesView& sizes, const void* ticket,
                          Site& site, CUstream stream) {
  HostSizes out{{}, 0, Fallback::kNone};
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  const auto bytes = static_cast<size_t>(ticket_bytes(sizes.payload_bytes()));
  const SlotRef slot = device.slots().find(ticket, bytes);
  if (!slot) {
    out.fallback = Fallback::kNoSlot;
  } else {
    wait_for_event(slot->event, site);
    if (!read_slot(*slot.get(), sizes, out)) out.fallback = Fallback::kTorn;
  }
  if (out.fallback != Fallback::kNone) {
    out.sizes = copy_and_wait(device, sizes, site, stream);
  }
  return out;
}

std::vector<int64_t> copy_and_wait(DeviceState& device, const GroupSizesView& sizes, Site& site,
                                   CUstream stream) {
  if (sizes.count == 0) return {};
  const auto bytes = static_cast<size_t>(sizes.payload_bytes());
  const CudaApi& api = cuda_api();
  const ContextGuard guard(api, device.context(), device.ordinal());
  auto slot = device.size_copies().acquire(bytes);
  const cuda::Result copied = api.memcpy_dtoh_async(
      slot->buffer.host(), reinterpret_cast<cuda::DevicePtr>(sizes.data), bytes, stream);
  if (copied != cuda::kSuccess) {
    device.size_copies().release(std::move(slot));
    check(copied, "cuMemcpyDtoHAsync", device.ordinal());
  }
  try {
    slot->event.record(stream);
    wait_for_event(slot->event, site);
  } catch (...) {
    device.size_copies().retire(std::move(slot), stream);
    throw;
  }
  auto values = read_group_sizes(slot->buffer.host(), sizes.type, sizes.count);
  device.size_copies().release(std::move(slot));
  return values;
}

}  // namespace graphsafe_gg
