// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Problem and GPU -> tile configuration. Pure host code: testable without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/problem.h"

namespace graphsafe_gg {

struct DeviceTraits {
  int arch;  // compute capability, major * 10 + minor
  int num_sms;
  int max_smem_block_bytes;  // opt-in limit of dynamic shared memory per block
  int max_smem_sm_bytes;
};

struct Config {
  int block_m;
  int block_n;
  int block_k;
  int num_stages;
  int num_threads;
  int blocks_per_sm;
  int cluster_size;    // 0: a kernel without tensor maps
  bool is_transposed;  // of kernels with them: computes the transposed tile
  int smem_bytes;
};

bool operator==(const Config& a, const Config& b);
std::string to_string(const Config& config);

// All configurations that are legal for the problem on this GPU, best default first.
std::vector<Config> candidate_configs(const Problem& problem, const DeviceTraits& device);

// The default. `max_group_rows` < 0 means the sizes are unknown on the host; results are
// bitwise the same for every configuration.
Config choose_config(const Problem& problem, const DeviceTraits& device, int64_t max_group_rows);

// Persistent grid size: a function of the static problem only.
int64_t grid_blocks(const Problem& problem, const Config& config, const DeviceTraits& device);

}  // namespace graphsafe_gg
