// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Group sizes on the host: read by their own width, and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_args.h"
#include "kernels/problem.h"

namespace graphsafe_gg {

int64_t size_bytes(IndexType type);

// Unsigned 64-bit values above the signed range read as the largest signed value.
std::vector<int64_t> read_group_sizes(const void* sizes, IndexType type, int64_t num_groups);

// The first integer of another operand.
int64_t read_index(const void* value, IndexType type);

// A group_offset or layer that names groups or matrices that do not exist.
SizeErrorRecord find_index_error(const Problem& problem, int64_t group_offset, int64_t layer);

// The first negative size, or the first group whose running sum passes m; kind is kNoSizeError
// when all is well.
SizeErrorRecord find_size_error(const std::vector<int64_t>& sizes, int64_t m);

// "<op>: group_sizes[3] must be ...; got ... (call site ...). ..."
std::string describe_size_error(const SizeErrorRecord& error, uint64_t site);

}  // namespace graphsafe_gg
