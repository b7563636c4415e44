// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/cuda.h"
//
#include "kernels/wgmma_gemm.cuh"
#include "testing/emulation/emulated_kernel.h"

#undef GG_WGMMA_GEMM
#define GG_WGMMA_GEMM(prefix, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm, cluster)   \
  GG_EMULATED(GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster), bm, bn, bk, stages, threads,     \
              per_sm, cluster, false,                                                              \
              graphsafe_gg::WgmmaGemm<graphsafe_gg::WgmmaShape<type, transpose_rhs, bm, bn, bk,    \
                                                               stages, threads, per_sm, cluster>>( \
                  args, maps, smem)                                                                \
                  .run())

#include "kernels/wgmma_gemm_bf16.cu"
#undef GG_GKN
#undef GG_GNK
#include "kernels/wgmma_gemm_f16.cu"
