// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The choice of kernels, for any GPU.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>

#include "kernels/config.h"
#include "kernels/dispatch.h"
#include "testing/bindings.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

nb::dict describe(const Problem& problem, const Config& config, const DeviceTraits& device) {
  nb::dict entry;
  const Kernel* kernel = find_kernel(problem, config);
  entry["kernel"] = kernel == nullptr ? nb::none() : nb::cast(std::string(kernel->symbol));
  entry["block_m"] = config.block_m;
  entry["block_n"] = config.block_n;
  entry["blocks_per_sm"] = config.blocks_per_sm;
  entry["cluster_size"] = config.cluster_size;
  entry["smem_bytes"] = config.smem_bytes;
  entry["grid_blocks"] = grid_blocks(problem, config, device);
  return entry;
}

// The default first; with max_group_rows, what these sizes choose comes first instead.
nb::list kernel_configs(const Problem& problem, const std::vector<int>& traits,
                        int64_t max_group_rows) {
  const DeviceTraits device = {traits[0], traits[1], traits[2], traits[3]};
  std::vector<Config> configs = candidate_configs(problem, device);
  const Config chosen = choose_config(problem, device, max_group_rows);
  if (max_group_rows >= 0) {
    configs.insert(configs.begin(), chosen);
  } else if (!configs.empty() && !(chosen == configs.front())) {
    throw std::logic_error("the default must be the first candidate; got " + to_string(chosen));
  }
  nb::list entries;
  for (const Config& config : configs) entries.append(describe(problem, config, device));
  return entries;
}

}  // namespace

void bind_configs(nb::module_& m) {
  m.def("kernel_configs", &kernel_configs, nb::arg("problem"), nb::arg("traits"),
        nb::arg("max_group_rows") = -1);
}

}  // namespace graphsafe_gg::testing
