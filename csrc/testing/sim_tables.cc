// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_calls.h"
#include "testing/sim_driver.h"

namespace graphsafe_gg::sim {

#define GG_ENTRY(member, symbol, params) &calls::member,

const CudaApi& SimDriver::cuda_table() {
  static const CudaApi table = {GG_CUDA_API(GG_ENTRY)};
  return table;
}

const GraphApi& SimDriver::graph_table() {
  static const GraphApi table = {GG_GRAPH_API(GG_ENTRY)};
  return table;
}

#undef GG_ENTRY

}  // namespace graphsafe_gg::sim
