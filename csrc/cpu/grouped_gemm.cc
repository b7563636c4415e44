// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/grouped_gemm.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "cpu/blas.h"
#include "cpu/streaming.h"
#include "runtime/errors.h"

namespace graphsafe_gg::cpu {
namespace {

// Sizes of blocks. They bound a thread's buffers, and follow from the problem alone: no result
// depends on the number of threads.
constexpr int64_t kStreamingRows = 64;
constexpr int64_t kStreamingCols = 256;
constexpr int64_t kBlasRows = 512;
constexpr int64_t kBlasCols = 512;
// Weight gradients of few rows are mostly written: long rows of the result are written faster.
constexpr int64_t kGradientCols = 2048;

// Elements read and written that are worth another thread.
constexpr int64_t kElementsPerThread = int64_t{1} << 15;

constexpr int64_t kMaxBlasDim = std::numeric_limits<int>::max();

// The one choice between the two mechanisms. BLAS is as fast for a weight gradient, whatever the
// group's rows.
bool is_streamed(const Block& group) {
  if (group.depth == 0) return true;
  if (group.lhs.is_transposed) return false;
  const auto& most = vector_kernels().most_streamed_rows;
  return group.rows <= most[group.dtype != DType::kF32][group.rhs.is_transposed];
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Group results of one mechanism, cut into blocks.
class BlockList {
 public:
  BlockList(int64_t block_rows, int64_t block_cols) : rows_(block_rows), cols_(block_cols) {}

  void add(const Block& group) {
    if (group.rows == 0 || group.cols == 0) return;
    const int64_t num_blocks = ceil_div(group.rows, rows_) * ceil_div(group.cols, cols_);
    groups_.push_back(group);
    ends_.push_back(size() + num_blocks);
    num_elements_ += (group.depth + group.rows) * group.cols;
  }

  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  int64_t num_elements() const { return num_elements_; }

  Block block(int64_t index) const {
    const auto group = std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
    Block b = groups_[static_cast<size_t>(group)];
    const int64_t i = index - (group == 0 ? 0 : ends_[static_cast<size_t>(group - 1)]);
    const int64_t per_row = ceil_div(b.cols, cols_);
    const int64_t row = i / per_row * rows_, col = i % per_row * cols_;
    b.lhs.data = at(b.lhs.data, b.dtype, b.lhs.is_transposed ? row : row * b.lhs.stride);
    b.rhs.data = at(b.rhs.data, b.dtype, b.rhs.is_transposed ? col * b.rhs.stride : col);
    if (b.bias != nullptr) b.bias = at(b.bias, b.dtype, col);
    b.out = at(b.out, b.out_dtype, row * b.out_stride + col);
    b.rows = std::min(rows_, b.rows - row);
    b.cols = std::min(cols_, b.cols - col);
    return b;
  }

 private:
  const int64_t rows_;
  const int64_t cols_;
  std::vector<Block> groups_;
  std::vector<int64_t> ends_;
  int64_t num_elements_ = 0;
};

class Plan {
 public:
  void add(const Block& group) {
    BlockList& by_blas = group.lhs.is_transposed ? gradients_ : blas_;
    (is_streamed(group) ? streaming_ : by_blas).add(group);
  }

  void run(const Workers& workers) const {
    run(streaming_, multiply_streaming, workers);
    if (blas_.size() + gradients_.size() == 0) return;
    const SingleThreadedBlas single;
    for (const BlockList& blocks : {std::cref(blas_), std::cref(gradients_)}) {
      run(blocks, multiply_blas, single.holds() ? workers : Workers{});
    }
  }

 private:
  static void run(const BlockList& blocks, void (*multiply)(const Block&, Scratch&),
                  const Workers& workers) {
    for_each_block(blocks.size(), workers, blocks.num_elements() / kElementsPerThread,
                   [&](int64_t i, Scratch& scratch) { multiply(blocks.block(i), scratch); });
  }

  BlockList streaming_{kStreamingRows, kStreamingCols};
  BlockList blas_{kBlasRows, kBlasCols};
  BlockList gradients_{kBlasRows, kGradientCols};
};

void check_blas_dims(const Problem& problem) {
  if (std::max(problem.k, problem.n) > kMaxBlasDim) {
    throw Unimplemented(
        "grouped_gemm: k and n must be below 2^31 on a CPU; got k = " + std::to_string(problem.k) +
        ", n = " + std::to_string(problem.n) + ". Split the product.");
  }
}

void set_zero(DType dtype, void* base, int64_t count) {
  std::memset(base, 0, static_cast<size_t>(count * size_bytes(dtype)));
}

}  // namespace

void grouped_gemm(const Problem& p, const void* lhs, const void* rhs, const void* bias,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out,
                  const Workers& workers) {
  if (p.n == 0 || p.m == 0) return;
  check_blas_dims(p);
  Plan plan;
  int64_t row = 0;
  for (int64_t group = 0; group < p.num_sizes; ++group) {
    const int64_t rows = sizes[static_cast<size_t>(group)];
    char* result = at(out, p.out_dtype, row * p.n);
    if (group < local.first || group >= local.end) {
      set_zero(p.out_dtype, result, rows * p.n);
    } else {
      const int64_t matrix = group + local.matrix_base;
      const Operand left{at(lhs, p.dtype, row * p.k), p.k, false};
      const Operand weights{at(rhs, p.dtype, matrix * p.k * p.n), p.transpose_rhs ? p.k : p.n,
                            p.transpose_rhs};
      const char* group_bias = bias == nullptr ? nullptr : at(bias, p.dtype, matrix * p.n);
      plan.add({p.dtype, p.out_dtype, left, weights, group_bias, result, p.n, rows, p.n, p.k});
    }
    row += rows;
  }
  set_zero(p.out_dtype, at(out, p.out_dtype, row * p.n), (p.m - row) * p.n);
  plan.run(workers);
}

void grouped_drhs(const Problem& p, const void* lhs, const void* dout,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out,
                  const Workers& workers) {
  if (p.k == 0 || p.n == 0) return;
  check_blas_dims(p);
  Plan plan;
  int64_t row = 0;
  for (int64_t group = 0; group < p.num_sizes; ++group) {
    const int64_t rows = sizes[static_cast<size_t>(group)];
    if (group >= local.first && group < local.end) {
      const Operand left{at(lhs, p.dtype, row * p.k), p.k, true};
      const Operand right{at(dout, p.dtype, row * p.n), p.n, false};
      char* result = at(out, p.out_dtype, (group + local.matrix_base) * p.k * p.n);
      plan.add({p.dtype, p.out_dtype, left, right, nullptr, result, p.n, p.k, p.n, rows});
    }
    row += rows;
  }
  plan.run(workers);
}

}  // namespace graphsafe_gg::cpu
