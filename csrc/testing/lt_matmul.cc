// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/lt_matmul.h"

#include <cstring>
#include <vector>

#include "cpu/vector_kernels.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::testing {
namespace {

constexpr char kSymbol[] = "fake_cublaslt_matmul";

std::vector<float> load(sim::KernelRun& run, DType dtype, const void* address, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  cpu::to_float(dtype, run.view(address, count * size_bytes(dtype)), count, values.data());
  return values;
}

void run_matmul(sim::KernelRun& run) {
  const auto args = run.param<LtMatmul>(0);
  const auto [m, n, k, transpose_a, transpose_b] = args.shape;
  const std::vector<float> a = load(run, args.dtype, args.a, m * k);
  const std::vector<float> b = load(run, args.dtype, args.b, k * n);
  std::vector<float> d(static_cast<size_t>(m * n), 0.0f);
  for (int64_t col = 0; col < n; ++col) {
    for (int64_t row = 0; row < m; ++row) {
      float sum = 0.0f;
      for (int64_t i = 0; i < k; ++i) {
        sum += a[static_cast<size_t>(transpose_a ? row * k + i : i * m + row)] *
               b[static_cast<size_t>(transpose_b ? i * n + col : col * k + i)];
      }
      d[static_cast<size_t>(col * m + row)] = sum;
    }
  }
  cpu::from_float(args.out_dtype, d.data(), m * n,
                  run.view(args.d, m * n * size_bytes(args.out_dtype)));
}

int64_t num_steps(const sim::Params& params) {
  LtMatmul args;
  std::memcpy(&args, params[0].data(), sizeof(args));
  return args.num_steps;
}

}  // namespace

cuda::Result launch_lt_matmul(const LtMatmul& args, CUstream stream) {
  static const bool is_registered = [] {
    sim::register_emulation(kSymbol, {{sizeof(LtMatmul)}, run_matmul, num_steps});
    return true;
  }();
  static_cast<void>(is_registered);
  sim::SimDriver& driver = *sim::SimDriver::current();
  CUfunction function = nullptr;
  {
    std::lock_guard<std::mutex> lock(driver.mutex);
    const uint64_t id = driver.new_id();
    driver.functions[id] = {kSymbol, driver.current_ordinal()};
    function = sim::to_handle<CUfunction>(id);
  }
  LtMatmul copy = args;
  void* params[] = {&copy};
  return cuda_api().launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
}

}  // namespace graphsafe_gg::testing
