// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "ffi/boundary.h"

#include <string>

namespace graphsafe_gg {
namespace {

using Dims = ffi::AnyBuffer::Dimensions;

std::string shape_text(Dims dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + ")";
}

void check_rank(const char* name, const ffi::AnyBuffer& buffer, size_t rank) {
  if (buffer.dimensions().size() == rank) return;
  throw InvalidArgument(std::string("grouped_gemm: ") + name + " must have rank " +
                        std::to_string(rank) + "; got shape " + shape_text(buffer.dimensions()) +
                        ".");
}

void check_dim(const char* name, const ffi::AnyBuffer& buffer, size_t axis, int64_t expected) {
  if (buffer.dimensions()[axis] == expected) return;
  throw InvalidArgument(std::string("grouped_gemm: ") + name + " must have size " +
                        std::to_string(expected) + " on axis " + std::to_string(axis) +
                        "; got shape " + shape_text(buffer.dimensions()) + ".");
}

DType dtype_of(const char* name, const ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case ffi::DataType::BF16:
      return DType::kBF16;
    case ffi::DataType::F16:
      return DType::kF16;
    case ffi::DataType::F32:
      return DType::kF32;
    default:
      throw InvalidArgument(std::string("grouped_gemm: ") + name +
                            " must be bfloat16, float16 or float32.");
  }
}

void check_same_dtype(DType lhs, DType rhs) {
  if (lhs != rhs) {
    throw InvalidArgument("grouped_gemm: lhs and rhs must have the same dtype.");
  }
}

}  // namespace

IndexType index_type_of(const ffi::AnyBuffer& group_sizes) {
  switch (group_sizes.element_type()) {
    case ffi::DataType::S8:
      return IndexType::kS8;
    case ffi::DataType::U8:
      return IndexType::kU8;
    case ffi::DataType::S16:
      return IndexType::kS16;
    case ffi::DataType::U16:
      return IndexType::kU16;
    case ffi::DataType::S32:
      return IndexType::kS32;
    case ffi::DataType::U32:
      return IndexType::kU32;
    case ffi::DataType::S64:
      return IndexType::kS64;
    case ffi::DataType::U64:
      return IndexType::kU64;
    default:
      throw InvalidArgument("grouped_gemm: group_sizes must be an integer array.");
  }
}

Problem grouped_gemm_problem(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& rhs,
                             const ffi::AnyBuffer& group_sizes, const ffi::AnyBuffer& out,
                             bool transpose_rhs) {
  check_rank("lhs", lhs, 2);
  check_rank("rhs", rhs, 3);
  check_rank("group_sizes", group_sizes, 1);
  check_rank("result", out, 2);
  Problem problem{};
  problem.product = Product::kMGrouped;
  problem.dtype = dtype_of("lhs", lhs);
  check_same_dtype(problem.dtype, dtype_of("rhs", rhs));
  problem.out_dtype = dtype_of("result", out);
  problem.size_type = index_type_of(group_sizes);
  problem.transpose_rhs = transpose_rhs;
  problem.m = lhs.dimensions()[0];
  problem.k = lhs.dimensions()[1];
  problem.num_groups = rhs.dimensions()[0];
  problem.n = rhs.dimensions()[transpose_rhs ? 1 : 2];
  check_dim("rhs", rhs, transpose_rhs ? 2 : 1, problem.k);
  check_dim("group_sizes", group_sizes, 0, problem.num_groups);
  check_dim("result", out, 0, problem.m);
  check_dim("result", out, 1, problem.n);
  return problem;
}

Problem drhs_problem(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& dout,
                     const ffi::AnyBuffer& group_sizes, const ffi::AnyBuffer& out) {
  check_rank("lhs", lhs, 2);
  check_rank("dout", dout, 2);
  check_rank("group_sizes", group_sizes, 1);
  check_rank("result", out, 3);
  Problem problem{};
  problem.product = Product::kKGrouped;
  problem.dtype = dtype_of("lhs", lhs);
  check_same_dtype(problem.dtype, dtype_of("dout", dout));
  problem.out_dtype = dtype_of("result", out);
  problem.size_type = index_type_of(group_sizes);
  problem.m = lhs.dimensions()[0];
  problem.k = lhs.dimensions()[1];
  problem.n = dout.dimensions()[1];
  problem.num_groups = group_sizes.dimensions()[0];
  check_dim("dout", dout, 0, problem.m);
  check_dim("result", out, 0, problem.num_groups);
  check_dim("result", out, 1, problem.k);
  check_dim("result", out, 2, problem.n);
  return problem;
}

}  // namespace graphsafe_gg
