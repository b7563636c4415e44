// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// CPU handlers: stateless, because XLA's CPU runtime calls execute only.
#include "cpu/grouped_gemm.h"
#include "ffi/handlers.h"
#include "runtime/group_sizes.h"

namespace graphsafe_gg {
namespace {

int64_t value_of(const IndexOperand& operand) {
  return operand.address == nullptr
             ? operand.value
             : read_index(operand.address, static_cast<IndexType>(operand.type));
}

void check(const SizeErrorRecord& error, const ProductCall& call) {
  if (error.kind != kNoSizeError) throw InvalidArgument(describe_size_error(error, call.site()));
}

LocalGroups checked_groups(const ProductCall& call) {
  const int64_t offset = value_of(call.operands.group_offset);
  const int64_t layer = value_of(call.operands.layer);
  const Problem& p = call.problem;
  check(find_index_error(p, offset, layer), call);
  return local_groups(offset, layer, p.num_sizes, p.num_groups, p.num_layers);
}

std::vector<int64_t> checked_sizes(const ProductCall& call) {
  const Problem& p = call.problem;
  auto sizes = read_group_sizes(call.operands.group_sizes, p.size_type, p.num_sizes);
  check(find_size_error(sizes, p.m), call);
  return sizes;
}

// XLA's own threads, the ones that its other operations on a CPU use.
cpu::Workers workers_of(ffi::ThreadPool& pool) {
  return {pool.num_threads(),
          [&pool](std::function<void()> task) { pool.Schedule(std::move(task)); }};
}

}  // namespace

ffi::Error grouped_gemm_cpu(ffi::ThreadPool pool, GG_OPERANDS) {
  return fence([&] {
    const auto call = grouped_gemm_call(lhs, second, group_sizes, rest, *out, attributes);
    const Operands& operands = call.operands;
    const LocalGroups local = checked_groups(call);
    cpu::grouped_gemm(call.problem, operands.lhs, operands.rhs, operands.bias, checked_sizes(call),
                      local, operands.out, workers_of(pool));
  });
}

ffi::Error drhs_cpu(ffi::ThreadPool pool, GG_OPERANDS) {
  return fence([&] {
    const auto call = drhs_call(lhs, second, group_sizes, rest, *out, attributes);
    const Operands& operands = call.operands;
    const LocalGroups local = checked_groups(call);
    cpu::grouped_drhs(call.problem, operands.lhs, operands.rhs, checked_sizes(call), local,
                      operands.out, workers_of(pool));
  });
}

}  // namespace graphsafe_gg
