// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/cuda.h"
//
#include "kernels/wgmma_transposed.cuh"
#include "testing/emulation/emulated_kernel.h"

#undef GG_WGMMA_TRANSPOSED
#define GG_WGMMA_TRANSPOSED(prefix, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm,    \
                            cluster)                                                             \
  GG_EMULATED(                                                                                   \
      GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster), bm, bn, bk, stages, threads, per_sm,   \
      cluster, true,                                                                             \
      graphsafe_gg::WgmmaTransposed<graphsafe_gg::WgmmaShape<type, transpose_rhs, bm, bn, bk,    \
                                                             stages, threads, per_sm, cluster>>( \
          args, maps, smem)                                                                      \
          .run())

#include "kernels/wgmma_transposed_bf16.cu"
#undef GG_GKN
#undef GG_GNK
#include "kernels/wgmma_transposed_f16.cu"
