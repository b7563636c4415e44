// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/grouped_gemm.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

#include "cpu/convert.h"
#include "runtime/errors.h"

namespace graphsafe_gg::cpu {
namespace {

std::atomic<Sgemm*> g_sgemm{nullptr};

// Blocks bound the float32 copies of 16-bit operands and keep BLAS dimensions in 32 bits.
constexpr int64_t kRowBlock = 512;
constexpr int64_t kDirectRowBlock = int64_t{1} << 20;
constexpr int64_t kPanelElements = int64_t{1} << 20;
constexpr int64_t kMaxBlasDim = std::numeric_limits<int>::max();

// Row-major C (rows, cols) = A (rows, depth) B (depth, cols) + beta C, where A and B may each be
// stored transposed. BLAS is column-major: it computes C^T = B^T A^T.
struct Matrix {
  const float* data;
  int64_t stride;
  bool is_transposed;
};

void multiply(Matrix a, Matrix b, int64_t rows, int64_t cols, int64_t depth, float beta, float* c,
              int64_t c_stride) {
  Sgemm* sgemm = g_sgemm.load(std::memory_order_acquire);
  if (sgemm == nullptr) throw DriverError("grouped_gemm: no BLAS is set for the CPU back end");
  char transa = b.is_transposed ? 'T' : 'N';
  char transb = a.is_transposed ? 'T' : 'N';
  int m = static_cast<int>(cols), n = static_cast<int>(rows), k = static_cast<int>(depth);
  int lda = static_cast<int>(std::max<int64_t>(b.stride, 1));
  int ldb = static_cast<int>(std::max<int64_t>(a.stride, 1));
  int ldc = static_cast<int>(std::max<int64_t>(c_stride, 1));
  float alpha = 1.0f;
  sgemm(&transa, &transb, &m, &n, &k, &alpha, const_cast<float*>(b.data), &lda,
        const_cast<float*>(a.data), &ldb, &beta, c, &ldc);
}

void check_blas_dims(const Problem& problem) {
  if (std::max(problem.k, problem.n) > kMaxBlasDim) {
    throw Unimplemented(
        "grouped_gemm: k and n must be below 2^31 on a CPU; got k = " + std::to_string(problem.k) +
        ", n = " + std::to_string(problem.n) + ". Split the product.");
  }
}

const char* at(const void* base, DType dtype, int64_t element) {
  return static_cast<const char*>(base) + element * size_bytes(dtype);
}

char* at(void* base, DType dtype, int64_t element) {
  return static_cast<char*>(base) + element * size_bytes(dtype);
}

// A rectangle of a row-major operand as float32: in place for float32, else copied to scratch.
const float* as_float(DType dtype, const void* base, int64_t stride, int64_t rows, int64_t cols,
                      std::vector<float>& scratch, int64_t& out_stride) {
  if (dtype == DType::kF32) {
    out_stride = stride;
    return static_cast<const float*>(base);
  }
  scratch.resize(static_cast<size_t>(rows * cols));
  out_stride = cols;
  for (int64_t r = 0; r < rows; ++r) {
    to_float(dtype, at(base, dtype, r * stride), cols, scratch.data() + r * cols);
  }
  return scratch.data();
}

void set_zero(DType dtype, void* base, int64_t count) {
  std::memset(base, 0, static_cast<size_t>(count * size_bytes(dtype)));
}

struct Scratch {
  std::vector<float> lhs;
  std::vector<float> rhs;
  std::vector<float> out;
};

void add_to_rows(const float* bias, int64_t rows, int64_t cols, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) out[r * cols + c] += bias[c];
  }
}

// What all rows of one group share.
struct Weights {
  const char* rhs;
  const float* bias;  // may be null
};

// out (rows, n) = lhs (rows, k) rhs + bias, for rows of one group.
void multiply_rows(const Problem& p, const char* lhs, const Weights& weights, int64_t rows,
                   char* out, Scratch& scratch) {
  const bool is_direct = p.out_dtype == DType::kF32;
  float* result = reinterpret_cast<float*>(out);
  if (!is_direct) {
    scratch.out.resize(static_cast<size_t>(rows * p.n));
    result = scratch.out.data();
  }
  if (p.k == 0) std::fill_n(result, rows * p.n, 0.0f);
  const int64_t panel =
      p.dtype == DType::kF32 ? p.k : std::clamp<int64_t>(kPanelElements / p.n, 1, p.k + 1);
  const char* rhs = weights.rhs;
  for (int64_t k0 = 0; k0 < p.k; k0 += panel) {
    const int64_t depth = std::min(panel, p.k - k0);
    Matrix a{nullptr, 0, false};
    a.data = as_float(p.dtype, at(lhs, p.dtype, k0), p.k, rows, depth, scratch.lhs, a.stride);
    Matrix b{nullptr, 0, p.transpose_rhs};
    b.data =
        p.transpose_rhs
            ? as_float(p.dtype, at(rhs, p.dtype, k0), p.k, p.n, depth, scratch.rhs, b.stride)
            : as_float(p.dtype, at(rhs, p.dtype, k0 * p.n), p.n, depth, p.n, scratch.rhs, b.stride);
    multiply(a, b, rows, p.n, depth, k0 == 0 ? 0.0f : 1.0f, result, p.n);
  }
  if (weights.bias != nullptr) add_to_rows(weights.bias, rows, p.n, result);
  if (!is_direct) from_float(p.out_dtype, result, rows * p.n, out);
}

// out (k, n) = lhs^T dout over rows of one group.
void contract_rows(const Problem& p, const char* lhs, const char* dout, int64_t rows, char* out,
                   Scratch& scratch) {
  const bool is_direct = p.out_dtype == DType::kF32;
  float* result = reinterpret_cast<float*>(out);
  if (!is_direct) {
    scratch.out.resize(static_cast<size_t>(p.k * p.n));
    result = scratch.out.data();
  }
  for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
    const int64_t depth = std::min(kRowBlock, rows - r0);
    Matrix a{nullptr, 0, true};
    a.data = as_float(p.dtype, at(lhs, p.dtype, r0 * p.k), p.k, depth, p.k, scratch.lhs, a.stride);
    Matrix b{nullptr, 0, false};
    b.data = as_float(p.dtype, at(dout, p.dtype, r0 * p.n), p.n, depth, p.n, scratch.rhs, b.stride);
    multiply(a, b, p.k, p.n, depth, r0 == 0 ? 0.0f : 1.0f, result, p.n);
  }
  if (!is_direct) from_float(p.out_dtype, result, p.k * p.n, out);
}

}  // namespace

void set_sgemm(Sgemm* sgemm) { g_sgemm.store(sgemm, std::memory_order_release); }

void grouped_gemm(const Problem& p, const void* lhs, const void* rhs, const void* bias,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out) {
  if (p.n == 0 || p.m == 0) return;
  check_blas_dims(p);
  const bool is_direct = p.dtype == DType::kF32 && p.out_dtype == DType::kF32;
  const int64_t block = is_direct ? kDirectRowBlock : kRowBlock;
  Scratch scratch;
  std::vector<float> group_bias;
  int64_t row = 0;
  for (int64_t group = 0; group < p.num_sizes; ++group) {
    const int64_t end = row + sizes[static_cast<size_t>(group)];
    if (group < local.first || group >= local.end) {
      set_zero(p.out_dtype, at(out, p.out_dtype, row * p.n), (end - row) * p.n);
      row = end;
      continue;
    }
    const int64_t matrix = group + local.matrix_base;
    Weights weights{at(rhs, p.dtype, matrix * p.k * p.n), nullptr};
    if (bias != nullptr && row < end) {
      group_bias.resize(static_cast<size_t>(p.n));
      to_float(p.dtype, at(bias, p.dtype, matrix * p.n), p.n, group_bias.data());
      weights.bias = group_bias.data();
    }
    while (row < end) {
      const int64_t rows = std::min(block, end - row);
      multiply_rows(p, at(lhs, p.dtype, row * p.k), weights, rows, at(out, p.out_dtype, row * p.n),
                    scratch);
      row += rows;
    }
  }
  set_zero(p.out_dtype, at(out, p.out_dtype, row * p.n), (p.m - row) * p.n);
}

void grouped_drhs(const Problem& p, const void* lhs, const void* dout,
                  const std::vector<int64_t>& sizes, const LocalGroups& local, void* out) {
  if (p.k == 0 || p.n == 0) return;
  check_blas_dims(p);
  Scratch scratch;
  int64_t row = 0;
  for (int64_t group = 0; group < p.num_sizes; ++group) {
    const int64_t size = sizes[static_cast<size_t>(group)];
    const int64_t first_row = row;
    row += size;
    if (group < local.first || group >= local.end) continue;
    char* result = at(out, p.out_dtype, (group + local.matrix_base) * p.k * p.n);
    if (size == 0) {
      set_zero(p.out_dtype, result, p.k * p.n);
      continue;
    }
    contract_rows(p, at(lhs, p.dtype, first_row * p.k), at(dout, p.dtype, first_row * p.n), size,
                  result, scratch);
  }
}

}  // namespace graphsafe_gg::cpu
