// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// CPU handlers: stateless, because XLA's CPU runtime calls execute only.
#include "cpu/grouped_gemm.h"
#include "ffi/handlers.h"
#include "runtime/group_sizes.h"

namespace graphsafe_gg {
namespace {

std::vector<int64_t> checked_sizes(const Problem& problem, const Buffer& group_sizes,
                                   int64_t site) {
  auto sizes = read_group_sizes(group_sizes.untyped_data(), problem.size_type, problem.num_groups);
  const SizeErrorRecord error = find_size_error(sizes, problem.m);
  if (error.kind != kNoSizeError) {
    throw InvalidArgument(describe_size_error(error, static_cast<uint64_t>(site)));
  }
  return sizes;
}

}  // namespace

ffi::Error grouped_gemm_cpu(Buffer lhs, Buffer rhs, Buffer group_sizes, Result out,
                            bool transpose_rhs, int64_t site) {
  return fence([&] {
    const Problem problem = grouped_gemm_problem(lhs, rhs, group_sizes, *out, transpose_rhs);
    cpu::grouped_gemm(problem, lhs.untyped_data(), rhs.untyped_data(),
                      checked_sizes(problem, group_sizes, site), out->untyped_data());
  });
}

ffi::Error drhs_cpu(Buffer lhs, Buffer dout, Buffer group_sizes, Result out, int64_t site) {
  return fence([&] {
    const Problem problem = drhs_problem(lhs, dout, group_sizes, *out);
    cpu::grouped_drhs(problem, lhs.untyped_data(), dout.untyped_data(),
                      checked_sizes(problem, group_sizes, site), out->untyped_data());
  });
}

ffi::Error grouped_gemm_async_cpu(Buffer lhs, Buffer rhs, Buffer group_sizes, Buffer /*ticket*/,
                                  Result out, bool transpose_rhs, int64_t site,
                                  int64_t /*fallback*/) {
  return grouped_gemm_cpu(lhs, rhs, group_sizes, out, transpose_rhs, site);
}

ffi::Error drhs_async_cpu(Buffer lhs, Buffer dout, Buffer group_sizes, Buffer /*ticket*/,
                          Result out, int64_t site, int64_t /*fallback*/) {
  return drhs_cpu(lhs, dout, group_sizes, out, site);
}

}  // namespace graphsafe_gg
