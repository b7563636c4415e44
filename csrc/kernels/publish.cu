// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Writes a ticket: the sizes as they are on the device now, under a fresh stamp. One block.
#include "kernels/ticket.h"

namespace {

// Per device and zero at load; kernels of one device draw their stamps from it in any order.
__device__ unsigned long long gg_num_copies;

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    gg_publish_sizes(const __grid_constant__ graphsafe_gg::PublishArgs args) {
  using graphsafe_gg::ticket_checksum_term;
  __shared__ unsigned long long stamp;
  __shared__ unsigned long long checksum;
  if (threadIdx.x == 0) {
    stamp = graphsafe_gg::ticket_stamp(args.ordinal, atomicAdd(&gg_num_copies, 1ull) + 1);
    checksum = ticket_checksum_term(stamp, -1);
  }
  __syncthreads();
  auto* header = static_cast<graphsafe_gg::TicketHeader*>(args.ticket);
  auto* payload = reinterpret_cast<uint32_t*>(header + 1);
  const auto* bytes = static_cast<const unsigned char*>(args.group_sizes);
  const int64_t num_words = graphsafe_gg::ticket_payload_words(args.size_bytes);
  unsigned long long sum = 0;
  for (int64_t word = threadIdx.x; word < num_words; word += blockDim.x) {
    // Sizes of one or two bytes need not start at a word.
    uint32_t value = 0;
    for (int b = 0; b < graphsafe_gg::kTicketWordBytes; ++b) {
      const int64_t byte = word * graphsafe_gg::kTicketWordBytes + b;
      if (byte < args.size_bytes) value |= static_cast<uint32_t>(bytes[byte]) << (8 * b);
    }
    payload[word] = value;
    sum += ticket_checksum_term(value, word);
  }
  if (sum != 0) atomicAdd(&checksum, sum);
  __syncthreads();
  if (threadIdx.x == 0) {
    *header = {stamp, checksum, static_cast<uint64_t>(args.size_bytes), 0};
  }
}
