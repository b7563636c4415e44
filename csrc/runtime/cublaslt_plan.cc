// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cublaslt_plan.h"

#include <array>

#include "runtime/host_policy.h"

namespace graphsafe_gg {
namespace {

constexpr uint32_t kAlignment = 16;
constexpr int kMaxCandidates = 8;

int data_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return lt::kTypeBF16;
    case DType::kF16:
      return lt::kTypeF16;
    case DType::kF32:
      return lt::kTypeF32;
  }
  return lt::kTypeF32;
}

// Pedantic: no TF32 and no emulation by narrower types, whatever the environment says.
int compute_type(DType dtype) {
  return dtype == DType::kF32 ? lt::kComputeF32Pedantic : lt::kComputeF32;
}

}  // namespace

CublasLtKey::CublasLtKey(const Problem& problem)
    : product(problem.product),
      dtype(problem.dtype),
      out_dtype(problem.out_dtype),
      transpose_rhs(problem.product == Product::kMGrouped && problem.transpose_rhs),
      k(problem.k),
      n(problem.n) {}

CublasLtPlan::CublasLtPlan(const CublasLtApi& api, lt::Handle handle, const CublasLtKey& key,
                           int ordinal)
    : api_(api),
      handle_(handle),
      ordinal_(ordinal),
      product_(key.product),
      desc_(nullptr, api.matmul_desc_destroy),
      a_(nullptr, api.layout_destroy),
      b_(nullptr, api.layout_destroy),
      d_(nullptr, api.layout_destroy),
      preference_(nullptr, api.preference_destroy) {
  const auto k = static_cast<uint64_t>(key.k);
  const auto n = static_cast<uint64_t>(key.n);
  lt::MatmulDesc desc = nullptr;
  check(api, api.matmul_desc_create(&desc, compute_type(key.dtype), lt::kTypeF32),
        "cublasLtMatmulDescCreate", ordinal);
  desc_.reset(desc);
  const bool is_forward = key.product == Product::kMGrouped;
  const int32_t transpose_a = is_forward && key.transpose_rhs ? lt::kOpTranspose : lt::kOpNone;
  const int32_t transpose_b = is_forward ? lt::kOpNone : lt::kOpTranspose;
  const auto set_op = [&](int attribute, int32_t op) {
    check(api, api.matmul_desc_set_attribute(desc, attribute, &op, sizeof(op)),
          "cublasLtMatmulDescSetAttribute", ordinal);
  };
  set_op(lt::kMatmulDescTransposeA, transpose_a);
  set_op(lt::kMatmulDescTransposeB, transpose_b);

  // The group's rows are columns of these layouts; one row stands for any number.
  if (is_forward) {
    a_ = key.transpose_rhs ? make_layout(key.dtype, k, n) : make_layout(key.dtype, n, k);
    b_ = make_layout(key.dtype, k, 1);
    d_ = make_layout(key.out_dtype, n, 1);
  } else {
    a_ = make_layout(key.dtype, n, 1);
    b_ = make_layout(key.dtype, k, 1);
    d_ = make_layout(key.out_dtype, n, k);
  }

  lt::Preference preference = nullptr;
  check(api, api.preference_create(&preference), "cublasLtMatmulPreferenceCreate", ordinal);
  preference_.reset(preference);
  const auto prefer = [&](int attribute, auto value) {
    check(api, api.preference_set_attribute(preference, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute", ordinal);
  };
  prefer(lt::kPreferenceMaxWorkspaceBytes, uint64_t{0});
  // No split of k: one kernel a group, and bits that depend on no reduction order.
  prefer(lt::kPreferenceReductionSchemeMask, lt::kReductionSchemeNone);
  for (const int operand : {lt::kPreferenceMinAlignmentA, lt::kPreferenceMinAlignmentB,
                            lt::kPreferenceMinAlignmentC, lt::kPreferenceMinAlignmentD}) {
    prefer(operand, kAlignment);
  }
}

CublasLtPlan::Owned<lt::OpaqueLayout> CublasLtPlan::make_layout(DType dtype, uint64_t rows,
                                                                uint64_t cols) {
  lt::Layout layout = nullptr;
  check(api_, api_.layout_create(&layout, data_type(dtype), rows, cols, static_cast<int64_t>(rows)),
        "cublasLtMatrixLayoutCreate", ordinal_);
  return {layout, api_.layout_destroy};
}

lt::Status CublasLtPlan::set_rows(int64_t rows) {
  const auto cols = static_cast<uint64_t>(rows);
  const lt::Layout other = product_ == Product::kMGrouped ? d_.get() : a_.get();
  for (const lt::Layout layout : {b_.get(), other}) {
    const lt::Status status =
        api_.layout_set_attribute(layout, lt::kLayoutCols, &cols, sizeof(cols));
    if (status != lt::kSuccess) return status;
  }
  return lt::kSuccess;
}

bool CublasLtPlan::is_valid(const lt::Algo& algo, int64_t rows) {
  check(api_, set_rows(rows), "cublasLtMatrixLayoutSetAttribute", ordinal_);
  // The workspace it reports is what the algorithm would use, not what it needs: the heuristic,
  // which was offered none, chose it to run without.
  lt::HeuristicResult result{};
  return api_.algo_check(handle_, desc_.get(), a_.get(), b_.get(), d_.get(), d_.get(), &algo,
                         &result) == lt::kSuccess;
}

// The library's first choice for the most rows that also serves the fewest, which are odd.
std::optional<lt::Algo> CublasLtPlan::choose_algo(int bucket) {
  const int64_t most = int64_t{1} << bucket;
  const int64_t fewest = most / 2 + 1;
  check(api_, set_rows(most), "cublasLtMatrixLayoutSetAttribute", ordinal_);
  std::array<lt::HeuristicResult, kMaxCandidates> results{};
  int num_results = 0;
  const lt::Status status =
      api_.algo_get_heuristic(handle_, desc_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                              preference_.get(), kMaxCandidates, results.data(), &num_results);
  if (status != lt::kSuccess) return std::nullopt;
  for (int i = 0; i < num_results; ++i) {
    const lt::HeuristicResult& result = results[static_cast<size_t>(i)];
    if (result.state != lt::kSuccess || result.workspace_bytes != 0) continue;
    if (is_valid(result.algo, most) && is_valid(result.algo, fewest)) return result.algo;
  }
  return std::nullopt;
}

void CublasLtPlan::prepare(int bucket) {
  while (static_cast<int>(algos_.size()) <= bucket) {
    algos_.push_back(choose_algo(static_cast<int>(algos_.size())));
  }
}

bool CublasLtPlan::can_run(int64_t rows) const {
  const auto bucket = static_cast<size_t>(row_bucket(rows));
  return bucket < algos_.size() && algos_[bucket].has_value();
}

lt::Status CublasLtPlan::run(int64_t rows, const CublasLtOperands& operands, CUstream stream) {
  const lt::Status status = set_rows(rows);
  if (status != lt::kSuccess) return status;
  const float alpha = 1.0f;
  const float beta = 0.0f;  // d is written, never read
  const lt::Algo& algo = *algos_[static_cast<size_t>(row_bucket(rows))];
  return api_.matmul(handle_, desc_.get(), &alpha, operands.a, a_.get(), operands.b, b_.get(),
                     &beta, operands.d, d_.get(), operands.d, d_.get(), &algo,
                     /*workspace=*/nullptr, /*workspace_bytes=*/0, stream);
}

}  // namespace graphsafe_gg
