// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/grouped_gemm_macros.h"
//
#include "kernels/grouped_gemm_bf16.cu"
#undef GG_GKN
#undef GG_GNK
#include "kernels/grouped_gemm_f16.cu"
#undef GG_GKN
#undef GG_GNK
#include "kernels/grouped_gemm_f32.cu"
