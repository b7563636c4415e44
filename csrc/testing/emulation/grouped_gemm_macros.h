// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Makes the .cu files that are included behind it register their kernels with the emulation.
#pragma once

#include "testing/emulation/cuda.h"
//
#include "kernels/grouped_gemm.cuh"
#include "testing/emulation/emulated_kernel.h"

#undef GG_M_GROUPED
#define GG_M_GROUPED(prefix, core, type, transpose_rhs, bm, bn, bk, stages, threads, per_sm)      \
  GG_EMULATED(GG_KERNEL_NAME(prefix, bm, bn, bk, stages), bm, bn, bk, stages, threads, per_sm, 0, \
              false,                                                                              \
              graphsafe_gg::m_grouped_gemm<graphsafe_gg::core, type, transpose_rhs, bm, bn, bk,   \
                                           stages, threads>(args))
#undef GG_K_GROUPED
#define GG_K_GROUPED(prefix, core, type, bm, bn, bk, stages, threads, per_sm)                    \
  GG_EMULATED(                                                                                   \
      GG_KERNEL_NAME(prefix, bm, bn, bk, stages), bm, bn, bk, stages, threads, per_sm, 0, false, \
      graphsafe_gg::k_grouped_gemm<graphsafe_gg::core, type, bm, bn, bk, stages, threads>(args))
