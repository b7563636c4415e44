// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Problem -> kernel launch on a borrowed stream.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/config.h"
#include "kernels/kernel_args.h"
#include "runtime/device_state.h"

namespace graphsafe_gg {

struct Operands {
  const void* lhs;
  const void* rhs;
  const void* group_sizes;
  void* out;
  const void* bias = nullptr;
  IndexOperand group_offset{};
  IndexOperand layer{};
};

// Loads every kernel that launch may pick for the problem: the default alone, or all candidates
// when the sizes will be known. Initialize stage only. Throws Unimplemented, with the reason.
void load_kernels(DeviceState& device, const Problem& problem, bool has_known_sizes);
void load_kernel(DeviceState& device, const Problem& problem, const Config& config);

// Of candidate_configs, the one whose kernel has this symbol. Throws InvalidArgument.
Config config_by_symbol(const DeviceState& device, const Problem& problem,
                        const std::string& symbol);

// Makes the launch a guard: the kernel returns at once if the stamp on the device is the expected
// one, and else computes as usual and counts that at the site. Null: no guard.
struct LaunchGuard {
  const uint64_t* stamp = nullptr;  // device address
  uint64_t expected = 0;
};

// How a launch stands to the kernel in front of it on the stream.
enum class LaunchOrder : uint8_t {
  kAfter,
  // May start while that kernel ends: ours reads weights alone until it has. Where the GPU has
  // kernels that wait by themselves (sm_90); else kAfter.
  kEarly,
};

// One kernel launch, capturable: no allocation, no wait, nothing that depends on buffer contents.
// max_group_rows < 0 when sizes are unknown to the host.
void launch(DeviceState& device, const Problem& problem, const Operands& operands, Site& site,
            int64_t max_group_rows, CUstream stream, const LaunchGuard& guard = {});
// With a configuration of the caller's, which was loaded.
void launch(DeviceState& device, const Problem& problem, const Config& config,
            const Operands& operands, Site& site, CUstream stream, const LaunchGuard& guard = {},
            LaunchOrder order = LaunchOrder::kAfter);

}  // namespace graphsafe_gg
