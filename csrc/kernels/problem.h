// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What is to be computed: static facts of one call. No pointers, no CUDA.
#pragma once

#include <cstdint>
#include <string>

namespace graphsafe_gg {

enum class DType : uint8_t { kBF16, kF16, kF32 };
enum class IndexType : uint8_t { kS8, kU8, kS16, kU16, kS32, kU32, kS64, kU64 };

// kMGrouped: out[r] = lhs[r] @ rhs[group of r].
// kKGrouped: out[i] = lhs[rows of i]^T @ dout[rows of i] (the weight gradient).
enum class Product : uint8_t { kMGrouped, kKGrouped };

struct Problem {
  Product product;
  DType dtype;      // of both operands
  DType out_dtype;  // of the result; accumulation is always float32
  IndexType size_type;
  // kMGrouped: rhs is (g, n, k) instead of (g, k, n). Unused by kKGrouped, which swaps operands.
  bool transpose_rhs;
  bool has_bias;
  int64_t num_layers = 1;  // of stacked rhs and bias
  int64_t num_sizes;       // entries of group_sizes: of all groups
  int64_t num_groups;      // of them, those whose matrices rhs or the result holds
  int64_t m;
  int64_t k;
  int64_t n;
};

int64_t size_bytes(DType dtype);
std::string to_string(const Problem& problem);

}  // namespace graphsafe_gg
