// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "runtime/errors.h"

namespace graphsafe_gg::cpu {
namespace {

// Of a float32 copy of a 16-bit operand.
constexpr int64_t kPanelElements = int64_t{1} << 19;
// Of one sgemm, which counts in 32 bits.
constexpr int64_t kMaxBlasDepth = int64_t{1} << 20;

std::atomic<Sgemm*> g_sgemm{nullptr};

// OpenBLAS's own interface, by its own name and by that of scipy's copy.
struct ThreadControl {
  int (*get_num_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
};

struct SingleThreadScopes {
  std::mutex mutex;
  ThreadControl control;
  int64_t count = 0;
  int num_threads_before = 0;
};

// Leaked: XLA's threads may still compute at exit.
SingleThreadScopes& scopes() {
  static auto& scopes = *new SingleThreadScopes;
  return scopes;
}

// Looked up through the module that holds sgemm: a search there covers the libraries it links.
ThreadControl find_thread_control(Sgemm* sgemm) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(sgemm), &info) == 0) return {};
  void* module = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  if (module == nullptr) return {};
  ThreadControl found;
  for (const char* prefix : {"scipy_", ""}) {
    const std::string name = std::string(prefix) + "openblas_";
    void* get = dlsym(module, (name + "get_num_threads").c_str());
    void* set = dlsym(module, (name + "set_num_threads").c_str());
    void* get_parallel = dlsym(module, (name + "get_parallel").c_str());
    if (get == nullptr || set == nullptr || get_parallel == nullptr) continue;
    // With OpenMP each calling thread has a number of its own.
    constexpr int kThreadsOfItsOwn = 1;
    if (reinterpret_cast<int (*)()>(get_parallel)() != kThreadsOfItsOwn) continue;
    found = {reinterpret_cast<int (*)()>(get), reinterpret_cast<void (*)(int)>(set)};
    break;
  }
  dlclose(module);
  return found;
}

// Row-major, perhaps stored transposed.
struct Matrix {
  const float* data;
  int64_t stride;
  bool is_transposed;
};

// c (rows, cols) = a (rows, depth) b (depth, cols) + beta c. BLAS is column-major: it computes
// c^T = b^T a^T.
void multiply(const Matrix& a, const Matrix& b, int64_t rows, int64_t cols, int64_t depth,
              float beta, float* c, int64_t c_stride) {
  Sgemm* sgemm = g_sgemm.load(std::memory_order_acquire);
  if (sgemm == nullptr) throw DriverError("grouped_gemm: no BLAS is set for the CPU back end");
  char transa = b.is_transposed ? 'T' : 'N';
  char transb = a.is_transposed ? 'T' : 'N';
  int m = static_cast<int>(cols), n = static_cast<int>(rows), k = static_cast<int>(depth);
  int lda = static_cast<int>(b.stride);
  int ldb = static_cast<int>(a.stride);
  int ldc = static_cast<int>(c_stride);
  float alpha = 1.0f;
  sgemm(&transa, &transb, &m, &n, &k, &alpha, const_cast<float*>(b.data), &lda,
        const_cast<float*>(a.data), &ldb, &beta, c, &ldc);
}

// Rows [depth, depth + count) of an operand that is not transposed, else columns: in place for
// float32, else copied. `width` is the operand's other dimension.
Matrix as_float(DType dtype, const Operand& operand, bool depth_is_rows, int64_t depth,
                int64_t count, int64_t width, const VectorKernels& kernels,
                std::vector<float>& buffer) {
  const char* data = at(operand.data, dtype, depth_is_rows ? depth * operand.stride : depth);
  if (dtype == DType::kF32) {
    return {reinterpret_cast<const float*>(data), operand.stride, operand.is_transposed};
  }
  const int64_t rows = depth_is_rows ? count : width;
  const int64_t cols = depth_is_rows ? width : count;
  float* copy = room(buffer, rows * cols);
  kernels.widen(dtype, data, operand.stride, rows, cols, copy, cols);
  return {copy, cols, operand.is_transposed};
}

}  // namespace

void set_sgemm(Sgemm* sgemm) {
  {
    const std::lock_guard<std::mutex> lock(scopes().mutex);
    scopes().control = find_thread_control(sgemm);
  }
  g_sgemm.store(sgemm, std::memory_order_release);
}

void multiply_blas(const Block& b, Scratch& scratch) {
  const bool is_direct = b.out_dtype == DType::kF32;
  float* sums = is_direct ? reinterpret_cast<float*>(b.out) : room(scratch.out, b.rows * b.cols);
  const int64_t stride = is_direct ? b.out_stride : b.cols;
  const int64_t panel = b.dtype == DType::kF32
                            ? kMaxBlasDepth
                            : std::max<int64_t>(kPanelElements / std::max(b.rows, b.cols), 1);
  for (int64_t d = 0; d < b.depth; d += panel) {
    const int64_t depth = std::min(panel, b.depth - d);
    const Matrix lhs = as_float(b.dtype, b.lhs, b.lhs.is_transposed, d, depth, b.rows,
                                scratch.kernels, scratch.lhs);
    const Matrix rhs = as_float(b.dtype, b.rhs, !b.rhs.is_transposed, d, depth, b.cols,
                                scratch.kernels, scratch.rhs);
    multiply(lhs, rhs, b.rows, b.cols, depth, d == 0 ? 0.0f : 1.0f, sums, stride);
  }
  finish(b, sums, stride, scratch);
}

SingleThreadedBlas::SingleThreadedBlas() {
  SingleThreadScopes& all = scopes();
  const std::lock_guard<std::mutex> lock(all.mutex);
  holds_ = all.control.set_num_threads != nullptr;
  if (!holds_ || all.count++ > 0) return;
  all.num_threads_before = all.control.get_num_threads();
  all.control.set_num_threads(1);
}

SingleThreadedBlas::~SingleThreadedBlas() {
  SingleThreadScopes& all = scopes();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!holds_ || --all.count > 0) return;
  // Another number is somebody else's wish of meanwhile.
  if (all.control.get_num_threads() == 1) all.control.set_num_threads(all.num_threads_before);
}

}  // namespace graphsafe_gg::cpu
