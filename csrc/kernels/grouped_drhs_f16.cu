// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/grouped_gemm.cuh"

#define GG_DRHS(...) GG_K_GROUPED(gg_drhs_f16, MmaCore, graphsafe_gg::ptx::F16, __VA_ARGS__)
GG_DRHS_TILES_16BIT(GG_DRHS)
