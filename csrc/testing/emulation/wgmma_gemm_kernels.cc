// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/wgmma_macros.h"
//
#include "kernels/wgmma_gemm_bf16.cu"
#undef GG_GKN
#undef GG_GNK
#include "kernels/wgmma_gemm_f16.cu"
