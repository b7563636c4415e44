// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Describes the operands of a launch to the copy engine.
#pragma once

#include "kernels/config.h"
#include "kernels/tensor_maps.h"

namespace graphsafe_gg {

// Host work alone, legal while capturing: a graph keeps its own copy. Leaves maps that are not
// valid where an address is not a multiple of 16.
void encode_tensor_maps(const Problem& problem, const Config& config, const void* lhs,
                        const void* rhs, int ordinal, TensorMaps& maps);

}  // namespace graphsafe_gg
