// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The one argument of every kernel, and the record a kernel leaves when the sizes are bad.
// Shared by host and device: plain data, fixed layout.
#pragma once

#include <cstdint>

namespace graphsafe_gg {

enum SizeErrorKind : uint32_t {
  kNoSizeError = 0,
  kNegativeSize = 1,
  kSumAboveM = 2,
  kBadGroupOffset = 3,
  kBadLayer = 4,
};

// Lives in mapped pinned memory, one per device and call site. The kernel writes the fields and
// then, after a system-wide fence, `kind`; it writes only where `kind` is kNoSizeError.
struct SizeErrorRecord {
  uint32_t kind;
  uint32_t reserved;
  int64_t index;  // first offending group; 0 for a bad offset or layer
  int64_t value;  // its size, the sum up to and including it (kSumAboveM), the offset or the layer
  int64_t limit;  // m; the largest legal offset or layer
};

// What a call site owns in mapped pinned memory. The kernels of a site write it.
struct SiteRecord {
  SizeErrorRecord error;
  uint64_t guard_trips;  // guards that found another stamp, and recomputed
  uint64_t reserved[3];
};

// An integer that the program holds, or, with an address, that a kernel reads.
struct IndexOperand {
  const void* address;
  int64_t value;
  uint8_t type;  // IndexType of what is at the address
  uint8_t reserved[7];
};

struct KernelArgs {
  const void* lhs;          // (m, k)
  const void* rhs;          // kMGrouped: (layers, g, k, n) or (layers, g, n, k); kKGrouped: (m, n)
  void* out;                // kMGrouped: (m, n); kKGrouped: (g, k, n)
  const void* group_sizes;  // (num_sizes,), element type `size_type`
  const void* bias;         // kMGrouped: (layers, g, n), type of lhs; may be null
  IndexOperand group_offset;
  IndexOperand layer;
  SizeErrorRecord* error;  // device address; may be null
  // A guard returns at once while the stamp is the expected one. Device addresses; a null stamp
  // means no guard.
  const uint64_t* guard_stamp;
  uint64_t expected_stamp;
  uint64_t* guard_trips;
  int64_t num_sizes;   // of all groups
  int64_t num_groups;  // of them, those whose matrices are here
  int64_t num_layers;
  int64_t m;
  int64_t k;
  int64_t n;
  uint8_t size_type;     // IndexType
  uint8_t out_dtype;     // DType
  uint8_t starts_early;  // launched so that the kernel before it may still run
  uint8_t reserved[5];
};

}  // namespace graphsafe_gg
