// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// float32 <-> the operand types, round to nearest even.
#pragma once

#include <cstdint>

#include "kernels/problem.h"

namespace graphsafe_gg::cpu {

void to_float(DType dtype, const void* in, int64_t count, float* out);
void from_float(DType dtype, const float* in, int64_t count, void* out);

}  // namespace graphsafe_gg::cpu
