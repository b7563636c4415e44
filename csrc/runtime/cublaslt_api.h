// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The one table through which every cuBLASLt call goes. Filled from the library at first use;
// tests put a double in its place. Absence is not an error: the project's own kernels run.
#pragma once

#include <string>
#include <vector>

#include "runtime/cublaslt_types.h"
#include "runtime/cuda_driver.h"

namespace graphsafe_gg {

// X(member, exported symbol, type of the result, parameters)
#define GG_CUBLASLT_API(X)                                                                     \
  X(get_version, "cublasLtGetVersion", size_t, ())                                             \
  X(get_status_name, "cublasLtGetStatusName", const char*, (lt::Status status))                \
  X(create, "cublasLtCreate", lt::Status, (lt::Handle * handle))                               \
  X(matmul_desc_create, "cublasLtMatmulDescCreate", lt::Status,                                \
    (lt::MatmulDesc * desc, int compute_type, int scale_type))                                 \
  X(matmul_desc_destroy, "cublasLtMatmulDescDestroy", lt::Status, (lt::MatmulDesc desc))       \
  X(matmul_desc_set_attribute, "cublasLtMatmulDescSetAttribute", lt::Status,                   \
    (lt::MatmulDesc desc, int attribute, const void* value, size_t size_bytes))                \
  X(layout_create, "cublasLtMatrixLayoutCreate", lt::Status,                                   \
    (lt::Layout * layout, int type, uint64_t rows, uint64_t cols, int64_t leading_dimension))  \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", lt::Status, (lt::Layout layout))            \
  X(layout_set_attribute, "cublasLtMatrixLayoutSetAttribute", lt::Status,                      \
    (lt::Layout layout, int attribute, const void* value, size_t size_bytes))                  \
  X(preference_create, "cublasLtMatmulPreferenceCreate", lt::Status,                           \
    (lt::Preference * preference))                                                             \
  X(preference_destroy, "cublasLtMatmulPreferenceDestroy", lt::Status,                         \
    (lt::Preference preference))                                                               \
  X(preference_set_attribute, "cublasLtMatmulPreferenceSetAttribute", lt::Status,              \
    (lt::Preference preference, int attribute, const void* value, size_t size_bytes))          \
  X(algo_get_heuristic, "cublasLtMatmulAlgoGetHeuristic", lt::Status,                          \
    (lt::Handle handle, lt::MatmulDesc desc, lt::Layout a, lt::Layout b, lt::Layout c,         \
     lt::Layout d, lt::Preference preference, int max_results, lt::HeuristicResult* results,   \
     int* num_results))                                                                        \
  X(algo_check, "cublasLtMatmulAlgoCheck", lt::Status,                                         \
    (lt::Handle handle, lt::MatmulDesc desc, lt::Layout a, lt::Layout b, lt::Layout c,         \
     lt::Layout d, const lt::Algo* algo, lt::HeuristicResult* result))                         \
  X(matmul, "cublasLtMatmul", lt::Status,                                                      \
    (lt::Handle handle, lt::MatmulDesc desc, const void* alpha, const void* a,                 \
     lt::Layout a_layout, const void* b, lt::Layout b_layout, const void* beta, const void* c, \
     lt::Layout c_layout, void* d, lt::Layout d_layout, const lt::Algo* algo, void* workspace, \
     size_t workspace_bytes, CUstream stream))

struct CublasLtApi {
#define GG_MEMBER(member, symbol, result, params) result(*member) params;
  GG_CUBLASLT_API(GG_MEMBER)
#undef GG_MEMBER
};

// Opens the library at the first call; never call it while capturing. Null where it is missing or
// too old: cublaslt_state() then says why.
const CublasLtApi* cublaslt_api();

// "13.0.2", why there is none, or that no call has needed it yet.
std::string cublaslt_state();

// Folders to look in after the libraries that are loaded and the loader's own path. Takes effect
// until the library is first needed.
void set_cublaslt_directories(std::vector<std::string> directories);

// Throws OutOfMemory or DriverError, "<call> failed on device <ordinal>: <name> (<number>)".
void check(const CublasLtApi& api, lt::Status status, const char* call, int ordinal);

// Replaces the table. The table must outlive the process; null goes back to the library.
void set_cublaslt_api_for_testing(const CublasLtApi* api);

}  // namespace graphsafe_gg
