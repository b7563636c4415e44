// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include <string>
#include <vector>

#include "runtime/check.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"
#include "runtime/tensor_maps.h"

namespace graphsafe_gg {
namespace {

// Kernels of other GPUs are compiled without the instruction that waits.
constexpr int kEarlyArch = 90;

bool is_empty(const Problem& problem) {
  const int64_t rows =
      problem.product == Product::kMGrouped ? problem.m : (problem.num_groups == 0 ? 0 : problem.k);
  return rows == 0 || problem.n == 0;
}

const Kernel& kernel_for(const Problem& problem, const Config& config) {
  const Kernel* kernel = find_kernel(problem, config);
  if (kernel == nullptr) {
    throw Unimplemented("grouped_gemm: no kernel is built for " + to_string(problem) + " with " +
                        to_string(config) + ".");
  }
  return *kernel;
}

}  // namespace

void load_kernels(DeviceState& device, const Problem& problem, bool has_known_sizes) {
  if (is_empty(problem)) return;
  const std::string reason = unsupported_reason(problem, device.traits());
  if (!reason.empty()) throw Unimplemented("grouped_gemm: " + reason);
  if (has_known_sizes) {
    for (const Config& config : candidate_configs(problem, device.traits())) {
      // Kernels of transposed tiles are chosen by a caller of the raw interface alone.
      if (!config.is_transposed) load_kernel(device, problem, config);
    }
  }
  load_kernel(device, problem, choose_config(problem, device.traits(), -1));
}

void load_kernel(DeviceState& device, const Problem& problem, const Config& config) {
  device.load_function(kernel_for(problem, config), config.smem_bytes);
}

Config config_by_symbol(const DeviceState& device, const Problem& problem,
                        const std::string& symbol) {
  const std::vector<Config> configs = candidate_configs(problem, device.traits());
  for (const Config& config : configs) {
    const Kernel* kernel = find_kernel(problem, config);
    if (kernel != nullptr && symbol == kernel->symbol) return config;
  }
  std::string built;
  for (const Config& config : configs) {
    if (const Kernel* kernel = find_kernel(problem, config)) {
      built += std::string(built.empty() ? "" : ", ") + kernel->symbol;
    }
  }
  throw InvalidArgument("raw.grouped_gemm: config must be one of " + built + " for " +
                        to_string(problem) + "; got " + symbol +
                        ". Take one of raw.grouped_gemm_configs, or none.");
}

void launch(DeviceState& device, const Problem& problem, const Operands& operands, Site& site,
            int64_t max_group_rows, CUstream stream, const LaunchGuard& guard) {
  if (is_empty(problem)) return;
  const Config config = choose_config(problem, device.traits(), max_group_rows);
  launch(device, problem, config, operands, site, stream, guard);
}

void launch(DeviceState& device, const Problem& problem, const Config& config,
            const Operands& operands, Site& site, CUstream stream, const LaunchGuard& guard,
            LaunchOrder order) {
  if (is_empty(problem)) return;
  KernelArgs args{};
  args.lhs = operands.lhs;
  args.rhs = operands.rhs;
  args.out = operands.out;
  args.group_sizes = operands.group_sizes;
  args.bias = operands.bias;
  args.group_offset = operands.group_offset;
  args.layer = operands.layer;
  args.error = &site.device_record->error;
  args.guard_stamp = guard.stamp;
  args.expected_stamp = guard.expected;
  args.guard_trips = &site.device_record->guard_trips;
  args.num_sizes = problem.num_sizes;
  args.num_groups = problem.num_groups;
  args.num_layers = problem.num_layers;
  args.m = problem.m;
  args.k = problem.k;
  args.n = problem.n;
  args.size_type = static_cast<uint8_t>(problem.size_type);
  args.out_dtype = static_cast<uint8_t>(problem.out_dtype);
  args.starts_early = order == LaunchOrder::kEarly && device.traits().arch == kEarlyArch;
  const CUfunction function = device.function(kernel_for(problem, config));
  const auto grid = static_cast<unsigned>(grid_blocks(problem, config, device.traits()));
  const CudaApi& api = cuda_api();
  const ContextGuard current(api, device.context(), device.ordinal());
  TensorMaps maps;  // filled for the kernels that take it
  if (config.cluster_size > 0) {
    encode_tensor_maps(problem, config, operands.lhs, operands.rhs, device.ordinal(), maps);
  }
  void* params[] = {&args, &maps};  // other kernels take the first alone
  const auto threads = static_cast<unsigned>(config.num_threads);
  const auto smem_bytes = static_cast<unsigned>(config.smem_bytes);
  if (args.starts_early != 0) {
    cuda::LaunchAttribute attribute{};
    attribute.id = cuda::kLaunchAttributeProgrammaticStreamSerialization;
    attribute.value.programmatic_stream_serialization_allowed = 1;
    const cuda::LaunchConfig early = {{grid, 1, 1}, {threads, 1, 1}, smem_bytes,
                                      stream,       &attribute,      1};
    check(api.launch_kernel_ex(&early, function, params, nullptr), "cuLaunchKernelEx",
          device.ordinal());
  } else {
    check(
        api.launch_kernel(function, grid, 1, 1, threads, 1, 1, smem_bytes, stream, params, nullptr),
        "cuLaunchKernel", device.ordinal());
  }
  if (guard.stamp == nullptr) device.counters().launches.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace graphsafe_gg
