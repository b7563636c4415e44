// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/group_sizes.h"

#include <cstring>
#include <limits>

#include "kernels/local_groups.h"
#include "runtime/call_sites.h"

namespace graphsafe_gg {
namespace {

template <typename T>
void widen(const void* sizes, std::vector<int64_t>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(sizes) + i * sizeof(T), sizeof(T));
    constexpr auto kMax = std::numeric_limits<int64_t>::max();
    const bool is_above = sizeof(T) == 8 && value > T{0} && static_cast<uint64_t>(value) > kMax;
    out[i] = is_above ? kMax : static_cast<int64_t>(value);
  }
}

}  // namespace

int64_t size_bytes(IndexType type) {
  switch (type) {
    case IndexType::kS8:
    case IndexType::kU8:
      return 1;
    case IndexType::kS16:
    case IndexType::kU16:
      return 2;
    case IndexType::kS32:
    case IndexType::kU32:
      return 4;
    case IndexType::kS64:
    case IndexType::kU64:
      return 8;
  }
  return 0;
}

std::vector<int64_t> read_group_sizes(const void* sizes, IndexType type, int64_t num_groups) {
  std::vector<int64_t> out(static_cast<size_t>(num_groups));
  switch (type) {
    case IndexType::kS8:
      widen<int8_t>(sizes, out);
      break;
    case IndexType::kU8:
      widen<uint8_t>(sizes, out);
      break;
    case IndexType::kS16:
      widen<int16_t>(sizes, out);
      break;
    case IndexType::kU16:
      widen<uint16_t>(sizes, out);
      break;
    case IndexType::kS32:
      widen<int32_t>(sizes, out);
      break;
    case IndexType::kU32:
      widen<uint32_t>(sizes, out);
      break;
    case IndexType::kS64:
      widen<int64_t>(sizes, out);
      break;
    case IndexType::kU64:
      widen<uint64_t>(sizes, out);
      break;
  }
  return out;
}

int64_t read_index(const void* value, IndexType type) {
  return read_group_sizes(value, type, 1).front();
}

SizeErrorRecord find_index_error(const Problem& problem, int64_t group_offset, int64_t layer) {
  if (!is_legal_offset(group_offset, problem.num_sizes, problem.num_groups)) {
    return {kBadGroupOffset, 0, 0, group_offset, problem.num_sizes - problem.num_groups};
  }
  if (!is_legal_layer(layer, problem.num_layers)) {
    return {kBadLayer, 0, 0, layer, problem.num_layers - 1};
  }
  return {};
}

SizeErrorRecord find_size_error(const std::vector<int64_t>& sizes, int64_t m) {
  SizeErrorRecord error{};
  int64_t sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (sizes[i] < 0) return {kNegativeSize, 0, index, sizes[i], m};
    // sum <= m here, so m - sum does not overflow; the reported sum saturates.
    if (sizes[i] > m - sum) {
      const bool overflows = sizes[i] > std::numeric_limits<int64_t>::max() - sum;
      const int64_t total = overflows ? std::numeric_limits<int64_t>::max() : sum + sizes[i];
      return {kSumAboveM, 0, index, total, m};
    }
    sum += sizes[i];
  }
  return error;
}

std::string describe_size_error(const SizeErrorRecord& error, uint64_t site) {
  const std::string index = std::to_string(error.index);
  const std::string value = std::to_string(error.value);
  const std::string where = " (call site " + call_site_name(site) + "). ";
  if (error.kind == kNegativeSize) {
    return "grouped_gemm: group_sizes[" + index + "] must be >= 0; got " + value + where +
           "Drop rows without a group, such as expert id -1, before counting.";
  }
  if (error.kind == kBadGroupOffset || error.kind == kBadLayer) {
    const bool is_layer = error.kind == kBadLayer;
    return std::string("grouped_gemm: ") + (is_layer ? "layer" : "group_offset") +
           " must be in [0, " + std::to_string(error.limit) + "]; got " + value + where +
           (is_layer ? "Count layers of the stack from 0."
                     : "Pass the number of groups before those that rhs holds.");
  }
  return "grouped_gemm: sum(group_sizes[:" + std::to_string(error.index + 1) +
         "]) must be at most m = " + std::to_string(error.limit) + "; got " + value + where +
         "Make lhs at least as long as the sum, or count only the rows that it holds.";
}

}  // namespace graphsafe_gg
