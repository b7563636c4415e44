// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Makes the .cu files that are included behind it register their kernels with the emulation.
#pragma once

#include "testing/emulation/cuda.h"
//
#include "kernels/wgmma_pipeline.cuh"
#include "testing/emulation/emulated_kernel.h"

#undef GG_WGMMA_KERNEL
#define GG_EMULATED_SHAPE(type, transpose_rhs, bm, bn, bk, stages, threads, per_sm, cluster) \
  graphsafe_gg::WgmmaShape<type, transpose_rhs, bm, bn, bk, stages, threads, per_sm, cluster>
#define GG_WGMMA_KERNEL(Kernel, prefix, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm, \
                        cluster)                                                                  \
  GG_EMULATED(GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster), bm, bn, bk, stages, threads,    \
              per_sm, cluster,                                                                    \
              (graphsafe_gg::Kernel<GG_EMULATED_SHAPE(type, transpose_rhs, bm, bn, bk, stages,    \
                                                      threads, per_sm, cluster)>::kIsTransposed), \
              graphsafe_gg::Kernel<GG_EMULATED_SHAPE(type, transpose_rhs, bm, bn, bk, stages,     \
                                                     threads, per_sm, cluster)>(args, maps, smem) \
                  .run())
