// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The tile shapes that are compiled, best default first. The .cu files instantiate these lists and
// dispatch.cc looks kernels up in them, so a shape is added in one place.
#pragma once

#include "kernels/tile_shape.h"

// X(block_m, block_n, block_k, num_stages, num_threads, blocks_per_sm)
#define GG_FWD_GKN_TILES_16BIT(X) \
  X(16, 128, 64, 4, 128, 3)       \
  X(16, 128, 128, 3, 128, 2)      \
  X(16, 256, 64, 3, 128, 2)       \
  X(32, 128, 64, 3, 128, 3)       \
  X(64, 128, 64, 3, 128, 3)       \
  X(128, 128, 64, 3, 128, 2)
// Rows of an (n, k) tile run along k: 256 bytes of each keep DRAM pages open longer than 128.
#define GG_FWD_GNK_TILES_16BIT(X) \
  X(16, 64, 128, 3, 128, 3)       \
  X(16, 128, 128, 3, 128, 2)      \
  X(64, 128, 64, 3, 128, 3)       \
  X(128, 128, 64, 3, 128, 2)
// X(block_m, block_n, block_k, num_stages, num_threads, blocks_per_sm, cluster_size)
#define GG_FWD_WGMMA_TILES(X)   \
  X(64, 256, 64, 5, 256, 1, 1)  \
  X(128, 128, 64, 6, 384, 1, 1) \
  X(128, 256, 64, 4, 384, 1, 1) \
  X(128, 256, 64, 4, 384, 1, 2)
// The same of kernels that compute the transposed tile, by rows. Chosen by nothing yet.
#define GG_FWD_WGMMA_TRANSPOSED_TILES(X) \
  X(16, 128, 64, 6, 256, 2, 1)           \
  X(32, 128, 64, 5, 256, 2, 1)           \
  X(32, 256, 64, 6, 384, 1, 1)           \
  X(64, 128, 64, 4, 256, 2, 1)           \
  X(64, 256, 64, 5, 384, 1, 1)           \
  X(128, 256, 64, 4, 384, 1, 1)          \
  X(256, 128, 64, 4, 384, 1, 1)          \
  X(256, 128, 64, 4, 384, 1, 2)
#define GG_FWD_TILES_F32(X) X(64, 128, 32, 3, 128, 2)
#define GG_DRHS_TILES_16BIT(X) X(128, 128, 64, 3, 128, 2)
#define GG_DRHS_TILES_F32(X) X(64, 128, 32, 3, 128, 2)

// Kernel names: gg_<op>_<type>[_<layout of rhs>]_m<block_m>n<block_n>k<block_k>s<num_stages>.
#define GG_KERNEL_NAME(prefix, bm, bn, bk, stages) prefix##_m##bm##n##bn##k##bk##s##stages
#define GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster) \
  prefix##_m##bm##n##bn##k##bk##s##stages##c##cluster
