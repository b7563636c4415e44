// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Which launch a call whose sizes the host knows takes. Pure functions of problem and sizes, never
// of addresses: testable without a GPU. design/host_size_launch.md explains the numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/problem.h"

namespace graphsafe_gg {

// What the user allows: the policy decides; never; wherever it can run.
enum class CublasLtUse : uint8_t { kAuto, kOff, kAlways };

// cuBLASLt, or why the project's own kernels.
enum class HostPath : uint8_t {
  kCublasLt,
  kOff,
  kOperands,     // bias, group_offset or stacked layers
  kType,         // no cuBLASLt product for this pair of types
  kAlignment,    // a row is not a whole number of 16-byte units
  kMisaligned,   // an operand does not start at a multiple of 16 bytes
  kDimension,    // a dimension is past 32 bits
  kNoWork,       // nothing to multiply: a product of zeros, or of nothing
  kManyGroups,   // one launch a group costs more than it gains
  kFewRows,      // groups too small for a GEMM of their own
  kLittleWork,   // a group's GEMM is shorter than its launch
  kNoLibrary,    // absent or too old
  kNoAlgorithm,  // the library offers none without a workspace
  kRefused,      // the library refused a group at its launch
};
constexpr size_t kNumHostPaths = 14;
const char* to_string(HostPath path);

// kCublasLt if some sizes of this problem may take it: what the initialize stage prepares for.
HostPath host_path(const Problem& problem, CublasLtUse use);

// For these sizes, which find_size_error has passed.
HostPath host_path(const Problem& problem, const std::vector<int64_t>& sizes, CublasLtUse use);

// Groups of (2^(b-1), 2^b] rows are in bucket b, and share an algorithm.
int row_bucket(int64_t rows);
constexpr int kMaxRowBucket = 31;  // a group has at most INT32_MAX rows

}  // namespace graphsafe_gg
