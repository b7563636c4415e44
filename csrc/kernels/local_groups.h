// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Which groups a call computes. Shared by host and device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace graphsafe_gg {

// Of all groups, [first, end) have a matrix here; group i has matrix i + matrix_base of the stack.
struct LocalGroups {
  int64_t first;
  int64_t end;
  int64_t matrix_base;
};

GG_HOST_DEVICE constexpr bool is_legal_offset(int64_t offset, int64_t num_sizes,
                                              int64_t num_groups) {
  return offset >= 0 && offset <= num_sizes - num_groups;
}

GG_HOST_DEVICE constexpr bool is_legal_layer(int64_t layer, int64_t num_layers) {
  return layer >= 0 && layer < num_layers;
}

// Any offset and layer give groups of [0, num_sizes) and matrices of the stack; none for a layer
// that does not exist.
GG_HOST_DEVICE constexpr LocalGroups local_groups(int64_t offset, int64_t layer, int64_t num_sizes,
                                                  int64_t num_groups, int64_t num_layers) {
  if (offset >= num_sizes || offset <= -num_groups || !is_legal_layer(layer, num_layers)) {
    return {0, 0, 0};
  }
  const int64_t end = offset + num_groups;
  return {offset < 0 ? 0 : offset, end < num_sizes ? end : num_sizes, layer * num_groups - offset};
}

}  // namespace graphsafe_gg
