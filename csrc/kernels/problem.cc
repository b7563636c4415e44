// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/problem.h"

namespace graphsafe_gg {
namespace {

const char* name(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF32:
      return "f32";
  }
  return "?";
}

const char* name(IndexType type) {
  switch (type) {
    case IndexType::kS8:
      return "s8";
    case IndexType::kU8:
      return "u8";
    case IndexType::kS16:
      return "s16";
    case IndexType::kU16:
      return "u16";
    case IndexType::kS32:
      return "s32";
    case IndexType::kU32:
      return "u32";
    case IndexType::kS64:
      return "s64";
    case IndexType::kU64:
      return "u64";
  }
  return "?";
}

}  // namespace

int64_t size_bytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

std::string to_string(const Problem& problem) {
  std::string text = problem.product == Product::kMGrouped ? "m_grouped" : "k_grouped";
  if (problem.product == Product::kMGrouped) text += problem.transpose_rhs ? " gnk" : " gkn";
  text += std::string(" ") + name(problem.dtype) + "->" + name(problem.out_dtype);
  text += " g=" + std::to_string(problem.num_groups);
  if (problem.num_sizes != problem.num_groups) text += " of " + std::to_string(problem.num_sizes);
  if (problem.num_layers != 1) text += " layers=" + std::to_string(problem.num_layers);
  if (problem.has_bias) text += " bias";
  text += " m=" + std::to_string(problem.m);
  text += " k=" + std::to_string(problem.k) + " n=" + std::to_string(problem.n);
  return text + " sizes=" + name(problem.size_type);
}

}  // namespace graphsafe_gg
