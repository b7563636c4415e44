// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The early copy: group sizes (g,) -> ticket. Captured into graphs like any other call; the same
// nodes at every trace. And the ticket alone, where no host waits for the copy.
#include <cstring>

#include "ffi/handlers.h"
#include "kernels/ticket.h"
#include "runtime/early_copy.h"

namespace graphsafe_gg {
namespace {

GroupSizesView view_of(const Buffer& group_sizes, const Buffer& ticket) {
  const GroupSizesView view{group_sizes.untyped_data(), index_type_of(group_sizes),
                            static_cast<int64_t>(group_sizes.element_count())};
  if (static_cast<int64_t>(ticket.size_bytes()) != ticket_bytes(view.payload_bytes())) {
    throw InvalidArgument("copy_group_sizes: the ticket must have " +
                          std::to_string(ticket_bytes(view.payload_bytes())) + " bytes; got " +
                          std::to_string(ticket.size_bytes()) + ".");
  }
  return view;
}

}  // namespace

ffi::Error group_sizes_copy_initialize(int32_t ordinal, Buffer group_sizes, Result ticket) {
  return fence([&] {
    const GroupSizesView view = view_of(group_sizes, *ticket);
    prepare_early_copy(DeviceState::initialize(ordinal), view.payload_bytes(),
                       ticket->untyped_data());
  });
}

ffi::Error group_sizes_copy_execute(Stream stream, int32_t ordinal, Buffer group_sizes,
                                    Result ticket) {
  return fence([&] {
    issue_early_copy(DeviceState::get(ordinal), view_of(group_sizes, *ticket),
                     ticket->untyped_data(), stream);
  });
}

ffi::Error group_sizes_ticket_initialize(int32_t ordinal, Buffer group_sizes, Result ticket) {
  return fence([&] {
    view_of(group_sizes, *ticket);
    prepare_publish(DeviceState::initialize(ordinal));
  });
}

ffi::Error group_sizes_ticket_execute(Stream stream, int32_t ordinal, Buffer group_sizes,
                                      Result ticket) {
  return fence([&] {
    issue_ticket(DeviceState::get(ordinal), view_of(group_sizes, *ticket), ticket->untyped_data(),
                 stream);
  });
}

ffi::Error group_sizes_copy_cpu(Buffer group_sizes, Result ticket) {
  return fence([&] {
    const GroupSizesView view = view_of(group_sizes, *ticket);
    std::memset(ticket->untyped_data(), 0, ticket->size_bytes());
    std::memcpy(static_cast<char*>(ticket->untyped_data()) + sizeof(TicketHeader), view.data,
                static_cast<size_t>(view.payload_bytes()));
  });
}

}  // namespace graphsafe_gg
