// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "ffi/boundary.h"

#include <optional>
#include <string>

#include "runtime/group_sizes.h"

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

void check_same_dtype(const char* name, DType lhs, DType other) {
  if (lhs == other) return;
  throw InvalidArgument(std::string("grouped_gemm: ") + name + " must have the dtype of lhs.");
}

void check_scalar(const char* name, const ffi::AnyBuffer& buffer) {
  if (buffer.element_count() == 1) return;
  throw InvalidArgument(std::string("grouped_gemm: ") + name +
                        " must hold one integer; got shape " + shape_text(buffer.dimensions()) +
                        ".");
}

void check_same(const char* name, int64_t got, int64_t expected) {
  if (got == expected) return;
  throw InvalidArgument(std::string("grouped_gemm: ") + name + " must be " +
                        std::to_string(expected) + "; got " + std::to_string(got) + ".");
}

// The optional operands, in order.
class OperandReader {
 public:
  OperandReader(const ffi::RemainingArgs& rest, int64_t wanted) : rest_(rest), wanted_(wanted) {}

  std::optional<ffi::AnyBuffer> next(OptionalOperand which) {
    if ((wanted_ & which) == 0) return std::nullopt;
    auto buffer = rest_.get<ffi::AnyBuffer>(num_read_++);
    if (!buffer.has_value()) throw InvalidArgument("grouped_gemm: an operand is missing.");
    return *buffer;
  }

  IndexOperand next_index(OptionalOperand which, const char* name, int64_t value) {
    const auto buffer = next(which);
    if (!buffer) return {nullptr, value < 0 ? 0 : value, 0, {}};
    check_scalar(name, *buffer);
    return {buffer->untyped_data(), 0, static_cast<uint8_t>(index_type_of(*buffer)), {}};
  }

  void check_all_read() const {
    check_same("the number of optional operands", static_cast<int64_t>(rest_.size()),
               static_cast<int64_t>(num_read_));
  }

 private:
  const ffi::RemainingArgs& rest_;
  const int64_t wanted_;
  size_t num_read_ = 0;
};

// What both products have: m, k, types, sizes and a group_offset. num_groups is set already.
void read_common(ProductCall& call, const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& group_sizes) {
  Problem& problem = call.problem;
  problem.size_type = index_type_of(group_sizes);
  problem.m = lhs.dimensions()[0];
  problem.k = lhs.dimensions()[1];
  problem.num_sizes = group_sizes.dimensions()[0];
  const bool has_offset =
      call.attributes.group_offset >= 0 || (call.attributes.operands & kGroupOffsetOperand) != 0;
  if (!has_offset) check_dim("group_sizes", group_sizes, 0, problem.num_groups);
  if (problem.num_sizes < problem.num_groups) {
    throw InvalidArgument("grouped_gemm: group_sizes must have at least " +
                          std::to_string(problem.num_groups) + " entries; got " +
                          std::to_string(problem.num_sizes) + ".");
  }
}

void check_static_indices(const ProductCall& call) {
  const IndexOperand& offset = call.operands.group_offset;
  const IndexOperand& layer = call.operands.layer;
  const SizeErrorRecord error =
      find_index_error(call.problem, offset.address == nullptr ? offset.value : 0,
                       layer.address == nullptr ? layer.value : 0);
  if (error.kind != kNoSizeError) {
    throw InvalidArgument(describe_size_error(error, call.site()));
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

ProductCall grouped_gemm_call(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& rhs,
                              const ffi::AnyBuffer& group_sizes, const ffi::RemainingArgs& rest,
                              const ffi::AnyBuffer& out, const CallAttributes& attributes) {
  const bool has_layers = attributes.layer >= 0 || (attributes.operands & kLayerOperand) != 0;
  const size_t stack = has_layers ? 1 : 0;
  check_rank("lhs", lhs, 2);
  check_rank("rhs", rhs, stack + 3);
  check_rank("group_sizes", group_sizes, 1);
  check_rank("result", out, 2);
  ProductCall call{};
  call.attributes = attributes;
  Problem& problem = call.problem;
  problem.product = Product::kMGrouped;
  problem.dtype = dtype_of("lhs", lhs);
  check_same_dtype("rhs", problem.dtype, dtype_of("rhs", rhs));
  problem.out_dtype = dtype_of("result", out);
  problem.transpose_rhs = attributes.transpose_rhs;
  problem.num_layers = has_layers ? rhs.dimensions()[0] : 1;
  problem.num_groups = rhs.dimensions()[stack];
  problem.n = rhs.dimensions()[stack + (attributes.transpose_rhs ? 1 : 2)];
  read_common(call, lhs, group_sizes);
  check_dim("rhs", rhs, stack + (attributes.transpose_rhs ? 2 : 1), problem.k);
  check_dim("result", out, 0, problem.m);
  check_dim("result", out, 1, problem.n);

  OperandReader reader(rest, attributes.operands);
  call.operands = {lhs.untyped_data(), rhs.untyped_data(), group_sizes.untyped_data(),
                   const_cast<ffi::AnyBuffer&>(out).untyped_data()};
  if (const auto ticket = reader.next(kTicketOperand)) call.ticket = ticket->untyped_data();
  if (const auto bias = reader.next(kBiasOperand)) {
    check_rank("bias", *bias, stack + 2);
    check_same_dtype("bias", problem.dtype, dtype_of("bias", *bias));
    if (has_layers) check_dim("bias", *bias, 0, problem.num_layers);
    check_dim("bias", *bias, stack, problem.num_groups);
    check_dim("bias", *bias, stack + 1, problem.n);
    problem.has_bias = true;
    call.operands.bias = bias->untyped_data();
  }
  call.operands.group_offset =
      reader.next_index(kGroupOffsetOperand, "group_offset", attributes.group_offset);
  call.operands.layer = reader.next_index(kLayerOperand, "layer", attributes.layer);
  reader.check_all_read();
  check_static_indices(call);
  return call;
}

ProductCall drhs_call(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& dout,
                      const ffi::AnyBuffer& group_sizes, const ffi::RemainingArgs& rest,
                      const ffi::AnyBuffer& out, const CallAttributes& attributes) {
  check_rank("lhs", lhs, 2);
  check_rank("dout", dout, 2);
  check_rank("group_sizes", group_sizes, 1);
  check_rank("result", out, 3);
  ProductCall call{};
  call.attributes = attributes;
  Problem& problem = call.problem;
  problem.product = Product::kKGrouped;
  problem.dtype = dtype_of("lhs", lhs);
  check_same_dtype("dout", problem.dtype, dtype_of("dout", dout));
  problem.out_dtype = dtype_of("result", out);
  problem.n = dout.dimensions()[1];
  problem.num_groups = out.dimensions()[0];
  read_common(call, lhs, group_sizes);
  check_dim("dout", dout, 0, problem.m);
  check_dim("result", out, 1, problem.k);
  check_dim("result", out, 2, problem.n);

  OperandReader reader(rest, attributes.operands);
  call.operands = {lhs.untyped_data(), dout.untyped_data(), group_sizes.untyped_data(),
                   const_cast<ffi::AnyBuffer&>(out).untyped_data()};
  if (const auto ticket = reader.next(kTicketOperand)) call.ticket = ticket->untyped_data();
  call.operands.group_offset =
      reader.next_index(kGroupOffsetOperand, "group_offset", attributes.group_offset);
  reader.check_all_read();
  check_static_indices(call);
  return call;
}

}  // namespace graphsafe_gg
