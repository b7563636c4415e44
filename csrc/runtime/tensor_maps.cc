// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor_maps.h"

#include "runtime/check.h"
#include "runtime/cuda_api.h"

namespace graphsafe_gg {
namespace {

constexpr uint64_t kMapAlignment = 16;

bool is_aligned(const void* address) {
  return reinterpret_cast<uint64_t>(address) % kMapAlignment == 0;
}

// A dense array of kRank dimensions, the innermost first, and the box of one copy.
template <unsigned kRank>
void encode(TensorMap* map, DType dtype, const void* address, const uint64_t (&dims)[kRank],
            const unsigned (&box)[kRank], int ordinal) {
  uint64_t strides[kRank];
  unsigned element_strides[kRank];
  uint64_t bytes = static_cast<uint64_t>(size_bytes(dtype));
  for (unsigned i = 0; i < kRank; ++i) {
    element_strides[i] = 1;
    strides[i] = bytes *= dims[i];  // of dimension i + 1; the last one is not read
  }
  const int type =
      dtype == DType::kBF16 ? cuda::kTensorMapDataTypeBfloat16 : cuda::kTensorMapDataTypeFloat16;
  check(cuda_api().tensor_map_encode_tiled(
            map, type, kRank, const_cast<void*>(address), dims, strides, box, element_strides,
            cuda::kTensorMapInterleaveNone, cuda::kTensorMapSwizzle128b,
            cuda::kTensorMapL2Promotion256b, cuda::kTensorMapFloatOobFillNone),
        "cuTensorMapEncodeTiled", ordinal);
}

}  // namespace

void encode_tensor_maps(const Problem& problem, const Config& config, const void* lhs,
                        const void* rhs, int ordinal, TensorMaps& maps) {
  maps.is_valid = 0;
  if (!is_aligned(lhs) || !is_aligned(rhs)) return;
  const auto m = static_cast<uint64_t>(problem.m);
  const auto k = static_cast<uint64_t>(problem.k);
  const auto n = static_cast<uint64_t>(problem.n);
  const auto g = static_cast<uint64_t>(problem.num_layers * problem.num_groups);
  const auto row = static_cast<unsigned>(kBoxRowBytes / size_bytes(problem.dtype));
  const auto block_k = static_cast<unsigned>(config.block_k);
  const auto lhs_rows = static_cast<unsigned>(
      config.is_transposed ? transposed_box_rows(config.block_m) : kLhsBoxRows);
  encode<2>(&maps.lhs, problem.dtype, lhs, {k, m}, {row, lhs_rows}, ordinal);
  if (problem.transpose_rhs) {
    const int rhs_copies = config.is_transposed ? 1 : config.cluster_size;
    const auto cols = static_cast<unsigned>(config.block_n / rhs_copies);
    encode<3>(&maps.rhs, problem.dtype, rhs, {k, n, g}, {row, cols, 1}, ordinal);
  } else {
    encode<3>(&maps.rhs, problem.dtype, rhs, {n, k, g}, {row, block_k, 1}, ordinal);
  }
  maps.is_valid = 1;
}

}  // namespace graphsafe_gg
