// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/grouped_gemm.cuh"

#define GG_GKN(...) GG_M_GROUPED(gg_fwd_f32_gkn, SimtCore, float, false, __VA_ARGS__)
#define GG_GNK(...) GG_M_GROUPED(gg_fwd_f32_gnk, SimtCore, float, true, __VA_ARGS__)
GG_FWD_TILES_F32(GG_GKN)
GG_FWD_TILES_F32(GG_GNK)
