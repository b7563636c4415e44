// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/publish_kernel.h"

#include <algorithm>

#include "testing/emulation/cuda.h"
#include "testing/emulation/grid.h"

// The one block shares what is static.
#undef __shared__
#define __shared__ static
#define __launch_bounds__(threads)
#include "kernels/publish.cu"

namespace graphsafe_gg::emulation {
namespace {

const PublishArgs* g_args = nullptr;  // of the launch that runs

const EmulatedKernel& kernel() {
  static const EmulatedKernel publish = {
      "gg_publish_sizes",
      {0, 0, 0, 0, 256, 1, 1},
      [](const KernelArgs&, const TensorMaps&, unsigned char*) { gg_publish_sizes(*g_args); }};
  return publish;
}

}  // namespace

std::vector<unsigned char> publish(const std::vector<unsigned char>& sizes, size_t misalignment,
                                   int ordinal, uint64_t seed) {
  Memory memory(/*is_low=*/seed % 2 == 0);
  Buffer& from = memory.add("group_sizes", sizes.size(), misalignment);
  std::copy(sizes.begin(), sizes.end(), from.data());
  from.forbid_writes();
  const auto size_bytes = static_cast<int64_t>(sizes.size());
  Buffer& ticket = memory.add("ticket", static_cast<size_t>(ticket_bytes(size_bytes)), 0);
  const PublishArgs args = {from.data(), ticket.data(), size_bytes, ordinal};
  g_args = &args;
  run({kernel(), KernelArgs{}, TensorMaps{}, 1, 0, seed}, memory);
  return {ticket.data(), ticket.data() + ticket.size_bytes()};
}

}  // namespace graphsafe_gg::emulation
