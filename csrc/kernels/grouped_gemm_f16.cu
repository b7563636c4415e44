// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/grouped_gemm.cuh"

#define GG_GKN(...) \
  GG_M_GROUPED(gg_fwd_f16_gkn, MmaCore, graphsafe_gg::ptx::F16, false, __VA_ARGS__)
#define GG_GNK(...) GG_M_GROUPED(gg_fwd_f16_gnk, MmaCore, graphsafe_gg::ptx::F16, true, __VA_ARGS__)
GG_FWD_GKN_TILES_16BIT(GG_GKN)
GG_FWD_GNK_TILES_16BIT(GG_GNK)
