// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/fake_cublaslt.h"

#include <cstring>
#include <memory>

#include "testing/lt_matmul.h"
#include "testing/sim_driver.h"

// What the handles of cublaslt_types.h point to here.
struct graphsafe_gg::lt::OpaqueHandle {
  int ordinal;
};
struct graphsafe_gg::lt::OpaqueMatmulDesc {
  int compute_type;
  int32_t transpose_a = lt::kOpNone;
  int32_t transpose_b = lt::kOpNone;
};
struct graphsafe_gg::lt::OpaqueLayout {
  int type;
  uint64_t rows;
  uint64_t cols;
  int64_t leading_dimension;
};
struct graphsafe_gg::lt::OpaquePreference {
  uint64_t max_workspace_bytes = 1;
  uint32_t reduction_schemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace graphsafe_gg::testing {
namespace {

using lt::Status;

constexpr Status kInvalidValue = 7;
constexpr uint64_t kAlgoMark = 0x60;

std::unique_ptr<FakeCublasLt> g_fake;

FakeCublasLt& fake() { return *g_fake; }

template <typename T>
Status destroy(const char* function, T* object) {
  fake().enter(function);
  delete object;
  std::lock_guard<std::mutex> lock(fake().mutex);
  --fake().num_live;
  return lt::kSuccess;
}

template <typename T>
Status create(const char* function, T** object, T value) {
  if (const Status status = fake().enter(function)) return status;
  *object = new T(value);
  std::lock_guard<std::mutex> lock(fake().mutex);
  ++fake().num_live;
  return lt::kSuccess;
}

template <typename T>
Status assign(T& field, const void* value, size_t size_bytes) {
  if (size_bytes != sizeof(T)) return kInvalidValue;
  std::memcpy(&field, value, sizeof(T));
  return lt::kSuccess;
}

size_t get_version() { return fake().options.version; }

const char* get_status_name(Status status) {
  return status == lt::kNotSupported  ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == lt::kAllocFailed ? "CUBLAS_STATUS_ALLOC_FAILED"
                                      : "CUBLAS_STATUS_INTERNAL_ERROR";
}

int current_ordinal() {
  sim::SimDriver& driver = *sim::SimDriver::current();
  std::lock_guard<std::mutex> lock(driver.mutex);
  return driver.current_ordinal();
}

// What the library does on its own: allocate at its creation, load a kernel at a first launch.
// Either is illegal beside a capture in global mode, unless this thread's own mode is relaxed.
Status allocate() {
  const GraphApi& graphs = sim::SimDriver::graph_table();
  cuda::DevicePtr device = 0;
  if (graphs.mem_alloc(&device, 1) != cuda::kSuccess) return lt::kAllocFailed;
  graphs.mem_free(device);
  return lt::kSuccess;
}

Status create_handle(lt::Handle* handle) {
  if (const Status status = fake().enter("Create")) return status;
  const int ordinal = current_ordinal();
  if (ordinal < 0) return 1;  // CUBLAS_STATUS_NOT_INITIALIZED
  if (const Status status = allocate()) return status;
  static std::vector<std::unique_ptr<lt::OpaqueHandle>> handles;
  handles.push_back(std::make_unique<lt::OpaqueHandle>(lt::OpaqueHandle{ordinal}));
  *handle = handles.back().get();
  return lt::kSuccess;
}

Status matmul_desc_create(lt::MatmulDesc* desc, int compute_type, int scale_type) {
  if (scale_type != lt::kTypeF32) fake().violate("alpha and beta must be float32");
  return create("MatmulDescCreate", desc, lt::OpaqueMatmulDesc{compute_type});
}

Status matmul_desc_set_attribute(lt::MatmulDesc desc, int attribute, const void* value,
                                 size_t size_bytes) {
  if (const Status status = fake().enter("MatmulDescSetAttribute")) return status;
  if (attribute == lt::kMatmulDescTransposeA) return assign(desc->transpose_a, value, size_bytes);
  if (attribute == lt::kMatmulDescTransposeB) return assign(desc->transpose_b, value, size_bytes);
  return kInvalidValue;
}

Status layout_create(lt::Layout* layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  return create("MatrixLayoutCreate", layout, lt::OpaqueLayout{type, rows, cols, ld});
}

Status layout_set_attribute(lt::Layout layout, int attribute, const void* value,
                            size_t size_bytes) {
  if (const Status status = fake().enter("MatrixLayoutSetAttribute")) return status;
  return attribute == lt::kLayoutCols ? assign(layout->cols, value, size_bytes) : kInvalidValue;
}

Status preference_create(lt::Preference* preference) {
  return create("MatmulPreferenceCreate", preference, lt::OpaquePreference{});
}

Status preference_set_attribute(lt::Preference preference, int attribute, const void* value,
                                size_t size_bytes) {
  if (const Status status = fake().enter("MatmulPreferenceSetAttribute")) return status;
  if (attribute == lt::kPreferenceMaxWorkspaceBytes) {
    return assign(preference->max_workspace_bytes, value, size_bytes);
  }
  if (attribute == lt::kPreferenceReductionSchemeMask) {
    return assign(preference->reduction_schemes, value, size_bytes);
  }
  const int operand = attribute - lt::kPreferenceMinAlignmentA;
  if (operand < 0 || operand > 3) return kInvalidValue;
  return assign(preference->alignments[operand], value, size_bytes);
}

// m, n and k of d = op(a) op(b), or a violation.
LtShape shape_of(lt::MatmulDesc desc, lt::Layout a, lt::Layout b, lt::Layout c, lt::Layout d) {
  const bool ta = desc->transpose_a == lt::kOpTranspose;
  const bool tb = desc->transpose_b == lt::kOpTranspose;
  const LtShape shape{static_cast<int64_t>(d->rows), static_cast<int64_t>(d->cols),
                      static_cast<int64_t>(ta ? a->rows : a->cols), ta, tb};
  const bool fits = (ta ? a->cols : a->rows) == d->rows && (tb ? b->rows : b->cols) == d->cols &&
                    (tb ? b->cols : b->rows) == static_cast<uint64_t>(shape.k);
  if (!fits || c != d || a->type != b->type) fake().violate("the layouts of a GEMM do not fit");
  for (const lt::Layout layout : {a, b, d}) {
    if (layout->leading_dimension < static_cast<int64_t>(layout->rows)) {
      fake().violate("a leading dimension is shorter than a column");
    }
  }
  const bool is_f32 = a->type == lt::kTypeF32;
  if (desc->compute_type != (is_f32 ? lt::kComputeF32Pedantic : lt::kComputeF32)) {
    fake().violate("a GEMM must accumulate in full float32");
  }
  return shape;
}

Status get_heuristic(lt::Handle, lt::MatmulDesc desc, lt::Layout a, lt::Layout b, lt::Layout c,
                     lt::Layout d, lt::Preference preference, int max_results,
                     lt::HeuristicResult* results, int* num_results) {
  if (const Status status = fake().enter("MatmulAlgoGetHeuristic")) return status;
  if (preference->max_workspace_bytes != 0 || preference->reduction_schemes != 0) {
    fake().violate("an algorithm may need a workspace or split k");
  }
  for (const uint32_t alignment : preference->alignments) {
    if (alignment != 16) fake().violate("an algorithm may need more than 16-byte alignment");
  }
  shape_of(desc, a, b, c, d);
  *num_results = 0;
  for (int i = 0; i < std::min(max_results, fake().options.num_algorithms); ++i) {
    lt::HeuristicResult& result = results[(*num_results)++];
    result = {};
    result.algo.data[0] = kAlgoMark + static_cast<uint64_t>(i);
    result.algo.data[1] = b->cols;  // rows of the group it was made for
    if (i > 0) continue;
    result.workspace_bytes = fake().options.workspace_bytes;
    result.state = fake().options.first_state;
  }
  return lt::kSuccess;
}

Status algo_check(lt::Handle, lt::MatmulDesc desc, lt::Layout a, lt::Layout b, lt::Layout c,
                  lt::Layout d, const lt::Algo*, lt::HeuristicResult*) {
  if (const Status status = fake().enter("MatmulAlgoCheck")) return status;
  shape_of(desc, a, b, c, d);
  return static_cast<int64_t>(b->cols) == fake().options.refused_rows ? lt::kNotSupported
                                                                      : lt::kSuccess;
}

DType dtype_of(int type) {
  return type == lt::kTypeBF16 ? DType::kBF16 : type == lt::kTypeF16 ? DType::kF16 : DType::kF32;
}

void check_launch(const float* alpha, const float* beta, const void* a, const void* b,
                  const void* d, const lt::Algo& algo, int64_t rows) {
  if (*alpha != 1.0f || *beta != 0.0f) fake().violate("a GEMM must overwrite its result");
  for (const void* operand : {a, b, d}) {
    if (reinterpret_cast<uintptr_t>(operand) % 16 != 0) fake().violate("an operand is unaligned");
  }
  const auto most = static_cast<int64_t>(algo.data[1]);
  if (algo.data[0] < kAlgoMark || rows > most || (most > 1 && rows <= most / 2)) {
    fake().violate("a GEMM runs an algorithm of another bucket");
  }
}

Status matmul(lt::Handle handle, lt::MatmulDesc desc, const void* alpha, const void* a,
              lt::Layout a_layout, const void* b, lt::Layout b_layout, const void* beta,
              const void* c, lt::Layout c_layout, void* d, lt::Layout d_layout,
              const lt::Algo* algo, void* workspace, size_t workspace_bytes, CUstream stream) {
  if (const Status status = fake().enter("Matmul")) return status;
  if (handle->ordinal != current_ordinal()) fake().violate("a handle of another device");
  if (algo == nullptr || workspace != nullptr || workspace_bytes != 0 || c != d) {
    fake().violate("a GEMM must bring its algorithm and no workspace");
    return kInvalidValue;
  }
  const LtShape shape = shape_of(desc, a_layout, b_layout, c_layout, d_layout);
  check_launch(static_cast<const float*>(alpha), static_cast<const float*>(beta), a, b, d, *algo,
               static_cast<int64_t>(b_layout->cols));
  {
    std::lock_guard<std::mutex> lock(fake().mutex);
    fake().streams.insert(stream);
  }
  if (!fake().has_kernel.exchange(true)) {
    if (const Status status = allocate()) return status;
  }
  const LtMatmul args{shape, dtype_of(a_layout->type), dtype_of(d_layout->type), a, b,
                      d,     fake().options.num_steps};
  return launch_lt_matmul(args, stream) == cuda::kSuccess ? lt::kSuccess : 13;
}

Status matmul_desc_destroy(lt::MatmulDesc desc) { return destroy("MatmulDescDestroy", desc); }
Status layout_destroy(lt::Layout layout) { return destroy("MatrixLayoutDestroy", layout); }
Status preference_destroy(lt::Preference preference) {
  return destroy("MatmulPreferenceDestroy", preference);
}

const CublasLtApi kTable = {get_version,        get_status_name,     create_handle,
                            matmul_desc_create, matmul_desc_destroy, matmul_desc_set_attribute,
                            layout_create,      layout_destroy,      layout_set_attribute,
                            preference_create,  preference_destroy,  preference_set_attribute,
                            get_heuristic,      algo_check,          matmul};

}  // namespace

void FakeCublasLt::install(const LtOptions& options) {
  g_fake = std::make_unique<FakeCublasLt>(options);
  set_cublaslt_api_for_testing(&kTable);
}

void FakeCublasLt::remove() { set_cublaslt_api_for_testing(nullptr); }

FakeCublasLt& FakeCublasLt::current() { return fake(); }

Status FakeCublasLt::enter(const char* function) {
  std::lock_guard<std::mutex> lock(mutex);
  calls.emplace_back(function, sim::current_stage());
  for (Failure& failure : failures) {
    if (failure.function == function && --failure.nth == 0) return failure.status;
  }
  return lt::kSuccess;
}

void FakeCublasLt::violate(const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex);
  violations.push_back(text);
}

}  // namespace graphsafe_gg::testing
