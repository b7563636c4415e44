// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The functions behind both tables, one for each entry.
#pragma once

#include "runtime/cuda_api.h"
#include "testing/graph_api.h"

namespace graphsafe_gg::sim::calls {

#define GG_DECLARE(member, symbol, params) cuda::Result member params;
GG_CUDA_API(GG_DECLARE)
GG_GRAPH_API(GG_DECLARE)
#undef GG_DECLARE

}  // namespace graphsafe_gg::sim::calls
