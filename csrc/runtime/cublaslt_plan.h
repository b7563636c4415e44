// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The cuBLASLt GEMM of one group: descriptors and, for each bucket of rows, the algorithm.
// Row-major operands are column-major transposes, so d^T is what is computed: n is the first
// dimension.
#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/problem.h"
#include "runtime/cublaslt_api.h"

namespace graphsafe_gg {

// What the GEMM of a group depends on, its rows apart.
struct CublasLtKey {
  explicit CublasLtKey(const Problem& problem);

  Product product;
  DType dtype;
  DType out_dtype;
  bool transpose_rhs;
  int64_t k;
  int64_t n;

  bool operator<(const CublasLtKey& other) const { return fields() < other.fields(); }

 private:
  std::tuple<Product, DType, DType, bool, int64_t, int64_t> fields() const {
    return {product, dtype, out_dtype, transpose_rhs, k, n};
  }
};

// Addresses of one group's operands, all multiples of 16.
struct CublasLtOperands {
  const void* a;  // kMGrouped: the group's rhs; kKGrouped: its rows of dout
  const void* b;  // the group's rows of lhs
  void* d;
};

// Used by one thread at a time.
class CublasLtPlan {
 public:
  // Throws OutOfMemory or DriverError.
  CublasLtPlan(const CublasLtApi& api, lt::Handle handle, const CublasLtKey& key, int ordinal);

  const CublasLtApi& api() const { return api_; }

  // Chooses the algorithms of all buckets up to this one that have none. Initialize stage only.
  void prepare(int bucket);

  bool has_bucket(int bucket) const { return static_cast<size_t>(bucket) < algos_.size(); }

  // Whether a group of so many rows can run. False for a bucket that was not prepared.
  bool can_run(int64_t rows) const;

  // Enqueues one group. The library chooses nothing here. Returns the library's own status.
  lt::Status run(int64_t rows, const CublasLtOperands& operands, CUstream stream);

 private:
  template <typename T>
  using Owned = std::unique_ptr<T, lt::Status (*)(T*)>;

  Owned<lt::OpaqueLayout> make_layout(DType dtype, uint64_t rows, uint64_t cols);
  std::optional<lt::Algo> choose_algo(int bucket);
  bool is_valid(const lt::Algo& algo, int64_t rows);
  lt::Status set_rows(int64_t rows);

  const CublasLtApi& api_;
  const lt::Handle handle_;
  const int ordinal_;
  const Product product_;
  Owned<lt::OpaqueMatmulDesc> desc_;
  Owned<lt::OpaqueLayout> a_;
  Owned<lt::OpaqueLayout> b_;
  Owned<lt::OpaqueLayout> d_;
  Owned<lt::OpaquePreference> preference_;
  std::vector<std::optional<lt::Algo>> algos_;  // by bucket
};

}  // namespace graphsafe_gg
