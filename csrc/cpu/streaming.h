// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A block with few rows: each weight is read from memory once, widened in cache, and used for all
// rows. A row's bits follow from its values and the weights alone.
#pragma once

#include "cpu/block.h"

namespace graphsafe_gg::cpu {

// lhs is not transposed.
void multiply_streaming(const Block& block, Scratch& scratch);

}  // namespace graphsafe_gg::cpu
