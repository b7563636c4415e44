// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_policy.h"

#include <algorithm>

namespace graphsafe_gg {
namespace {

// Provisional: from recorded figures of other programs, not yet measured here.
constexpr int64_t kMaxGroups = 32;
constexpr int64_t kMinMeanRows = 512;
constexpr double kMinMeanFlops16Bit = 16e9;
constexpr double kMinMeanFlopsF32 = 1e9;

constexpr int64_t kRowAlignment = 16;  // bytes; XLA's buffers start at such a multiple

double flops(const Problem& problem, int64_t rows) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(problem.k) *
         static_cast<double>(problem.n);
}

double min_mean_flops(const Problem& problem) {
  return problem.dtype == DType::kF32 ? kMinMeanFlopsF32 : kMinMeanFlops16Bit;
}

bool is_aligned(int64_t elements, DType dtype) {
  return elements % (kRowAlignment / size_bytes(dtype)) == 0;
}

// Every row of every operand and of the result then starts at a 16-byte multiple.
bool has_aligned_rows(const Problem& problem) {
  return is_aligned(problem.k, problem.dtype) && is_aligned(problem.n, problem.dtype) &&
         is_aligned(problem.n, problem.out_dtype);
}

// What holds for any sizes and cannot be forced.
HostPath possible_path(const Problem& problem, CublasLtUse use) {
  if (use == CublasLtUse::kOff) return HostPath::kOff;
  if (problem.has_bias || problem.num_sizes != problem.num_groups || problem.num_layers != 1) {
    return HostPath::kOperands;
  }
  if (problem.out_dtype != problem.dtype && problem.out_dtype != DType::kF32) {
    return HostPath::kType;
  }
  if (problem.m == 0 || problem.k == 0 || problem.n == 0 || problem.num_groups == 0) {
    return HostPath::kNoWork;
  }
  if (!has_aligned_rows(problem)) return HostPath::kAlignment;
  if (problem.k > INT32_MAX || problem.n > INT32_MAX) return HostPath::kDimension;
  return HostPath::kCublasLt;
}

}  // namespace

const char* to_string(HostPath path) {
  switch (path) {
    case HostPath::kCublasLt:
      return "cublaslt";
    case HostPath::kOff:
      return "kernels: cublaslt is switched off";
    case HostPath::kOperands:
      return "kernels: bias, group_offset or layer";
    case HostPath::kType:
      return "kernels: no cublaslt product of these types";
    case HostPath::kAlignment:
      return "kernels: rows are not multiples of 16 bytes";
    case HostPath::kMisaligned:
      return "kernels: operands do not start at a multiple of 16 bytes";
    case HostPath::kDimension:
      return "kernels: a dimension is past 32 bits";
    case HostPath::kNoWork:
      return "kernels: nothing to multiply";
    case HostPath::kManyGroups:
      return "kernels: many groups";
    case HostPath::kFewRows:
      return "kernels: few rows a group";
    case HostPath::kLittleWork:
      return "kernels: little work a group";
    case HostPath::kNoLibrary:
      return "kernels: no usable cublaslt";
    case HostPath::kNoAlgorithm:
      return "kernels: no cublaslt algorithm";
    case HostPath::kRefused:
      return "kernels: cublaslt refused";
  }
  return "unknown";
}

HostPath host_path(const Problem& problem, CublasLtUse use) {
  const HostPath path = possible_path(problem, use);
  if (path != HostPath::kCublasLt || use == CublasLtUse::kAlways) return path;
  // The means are largest when all rows are in one group.
  if (problem.m < kMinMeanRows) return HostPath::kFewRows;
  if (flops(problem, problem.m) < min_mean_flops(problem)) return HostPath::kLittleWork;
  return HostPath::kCublasLt;
}

HostPath host_path(const Problem& problem, const std::vector<int64_t>& sizes, CublasLtUse use) {
  const HostPath path = host_path(problem, use);
  if (path != HostPath::kCublasLt) return path;
  int64_t num_groups = 0;
  int64_t num_rows = 0;
  int64_t largest = 0;
  for (const int64_t size : sizes) {
    num_groups += size > 0;
    num_rows += size;
    largest = std::max(largest, size);
  }
  if (num_groups == 0) return HostPath::kNoWork;
  if (largest > INT32_MAX) return HostPath::kDimension;
  if (use == CublasLtUse::kAlways) return HostPath::kCublasLt;
  if (num_groups > kMaxGroups) return HostPath::kManyGroups;
  if (num_rows < kMinMeanRows * num_groups) return HostPath::kFewRows;
  if (flops(problem, num_rows) < min_mean_flops(problem) * static_cast<double>(num_groups)) {
    return HostPath::kLittleWork;
  }
  return HostPath::kCublasLt;
}

int row_bucket(int64_t rows) {
  int bucket = 0;
  while (bucket < 62 && (int64_t{1} << bucket) < rows) ++bucket;
  return bucket;
}

}  // namespace graphsafe_gg
