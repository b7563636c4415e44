// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/wgmma_gemm.cuh"

#define GG_GKN(...) \
  GG_WGMMA_KERNEL(WgmmaGemm, gg_fwd_bf16_gkn_wgmma, graphsafe_gg::ptx::Bf16, false, __VA_ARGS__)
#define GG_GNK(...) \
  GG_WGMMA_KERNEL(WgmmaGemm, gg_fwd_bf16_gnk_wgmma, graphsafe_gg::ptx::Bf16, true, __VA_ARGS__)
GG_FWD_WGMMA_TILES(GG_GKN)
GG_FWD_WGMMA_TILES(GG_GNK)
