// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/grouped_gemm_macros.h"
//
#include "kernels/grouped_drhs_bf16.cu"
#undef GG_DRHS
#include "kernels/grouped_drhs_f16.cu"
#undef GG_DRHS
#include "kernels/grouped_drhs_f32.cu"
