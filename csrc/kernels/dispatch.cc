// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch.h"

#include "kernels/kernel_list.h"

namespace graphsafe_gg {
namespace {

constexpr int kMinArch = 80;  // cp.async and the bf16 mma

struct Entry {
  Product product;
  DType dtype;
  bool transpose_rhs;
  TileShape shape;
  Kernel kernel;
};

#define GG_TEXT_(x) #x
#define GG_TEXT(x) GG_TEXT_(x)
#define GG_ENTRY(product, dtype, transpose_rhs, library, prefix, bm, bn, bk, stages, threads) \
  {product,                                                                                   \
   dtype,                                                                                     \
   transpose_rhs,                                                                             \
   {bm, bn, bk, stages, threads, 0, 0},                                                       \
   {library, GG_TEXT(GG_KERNEL_NAME(prefix, bm, bn, bk, stages))}},
#define GG_WGMMA(dtype, transpose_rhs, is_transposed, library, prefix, bm, bn, bk, stages, \
                 threads, cluster)                                                         \
  {Product::kMGrouped,                                                                     \
   dtype,                                                                                  \
   transpose_rhs,                                                                          \
   {bm, bn, bk, stages, threads, 0, cluster, is_transposed},                               \
   {library, GG_TEXT(GG_WGMMA_NAME(prefix, bm, bn, bk, stages, cluster))}},

#define GG_FWD(dtype, trans, library, prefix, ...) \
  GG_ENTRY(Product::kMGrouped, dtype, trans, library, prefix, __VA_ARGS__)
#define GG_DRHS(dtype, library, prefix, ...) \
  GG_ENTRY(Product::kKGrouped, dtype, false, library, prefix, __VA_ARGS__)

#define GG_FWD_BF16_GKN(bm, bn, bk, s, t, b) \
  GG_FWD(DType::kBF16, false, "grouped_gemm_bf16", gg_fwd_bf16_gkn, bm, bn, bk, s, t)
#define GG_FWD_BF16_GNK(bm, bn, bk, s, t, b) \
  GG_FWD(DType::kBF16, true, "grouped_gemm_bf16", gg_fwd_bf16_gnk, bm, bn, bk, s, t)
#define GG_FWD_F16_GKN(bm, bn, bk, s, t, b) \
  GG_FWD(DType::kF16, false, "grouped_gemm_f16", gg_fwd_f16_gkn, bm, bn, bk, s, t)
#define GG_FWD_F16_GNK(bm, bn, bk, s, t, b) \
  GG_FWD(DType::kF16, true, "grouped_gemm_f16", gg_fwd_f16_gnk, bm, bn, bk, s, t)
#define GG_FWD_F32_GKN(bm, bn, bk, s, t, b) \
  GG_FWD(DType::kF32, false, "grouped_gemm_f32", gg_fwd_f32_gkn, bm, bn, bk, s, t)
#define GG_FWD_F32_GNK(bm, bn, bk, s, t, b) \
  GG_FWD(DType::kF32, true, "grouped_gemm_f32", gg_fwd_f32_gnk, bm, bn, bk, s, t)
#define GG_WGMMA_BF16_GKN(bm, bn, bk, s, t, b, c)                                                  \
  GG_WGMMA(DType::kBF16, false, false, "wgmma_gemm_bf16", gg_fwd_bf16_gkn_wgmma, bm, bn, bk, s, t, \
           c)
#define GG_WGMMAT_BF16_GKN(bm, bn, bk, s, t, b, c)                                                 \
  GG_WGMMA(DType::kBF16, false, true, "wgmma_transposed_bf16", gg_fwd_bf16_gkn_wgmmat, bm, bn, bk, \
           s, t, c)
#define GG_WGMMA_BF16_GNK(bm, bn, bk, s, t, b, c) \
  GG_WGMMA(DType::kBF16, true, false, "wgmma_gemm_bf16", gg_fwd_bf16_gnk_wgmma, bm, bn, bk, s, t, c)
#define GG_WGMMAT_BF16_GNK(bm, bn, bk, s, t, b, c)                                                \
  GG_WGMMA(DType::kBF16, true, true, "wgmma_transposed_bf16", gg_fwd_bf16_gnk_wgmmat, bm, bn, bk, \
           s, t, c)
#define GG_WGMMA_F16_GKN(bm, bn, bk, s, t, b, c) \
  GG_WGMMA(DType::kF16, false, false, "wgmma_gemm_f16", gg_fwd_f16_gkn_wgmma, bm, bn, bk, s, t, c)
#define GG_WGMMAT_F16_GKN(bm, bn, bk, s, t, b, c)                                                  \
  GG_WGMMA(DType::kF16, false, true, "wgmma_transposed_f16", gg_fwd_f16_gkn_wgmmat, bm, bn, bk, s, \
           t, c)
#define GG_WGMMA_F16_GNK(bm, bn, bk, s, t, b, c) \
  GG_WGMMA(DType::kF16, true, false, "wgmma_gemm_f16", gg_fwd_f16_gnk_wgmma, bm, bn, bk, s, t, c)
#define GG_WGMMAT_F16_GNK(bm, bn, bk, s, t, b, c)                                                 \
  GG_WGMMA(DType::kF16, true, true, "wgmma_transposed_f16", gg_fwd_f16_gnk_wgmmat, bm, bn, bk, s, \
           t, c)
#define GG_DRHS_BF16(bm, bn, bk, s, t, b) \
  GG_DRHS(DType::kBF16, "grouped_drhs_bf16", gg_drhs_bf16, bm, bn, bk, s, t)
#define GG_DRHS_F16(bm, bn, bk, s, t, b) \
  GG_DRHS(DType::kF16, "grouped_drhs_f16", gg_drhs_f16, bm, bn, bk, s, t)
#define GG_DRHS_F32(bm, bn, bk, s, t, b) \
  GG_DRHS(DType::kF32, "grouped_drhs_f32", gg_drhs_f32, bm, bn, bk, s, t)

const Entry kEntries[] = {GG_FWD_GKN_TILES_16BIT(GG_FWD_BF16_GKN)            //
                          GG_FWD_GNK_TILES_16BIT(GG_FWD_BF16_GNK)            //
                          GG_FWD_GKN_TILES_16BIT(GG_FWD_F16_GKN)             //
                          GG_FWD_GNK_TILES_16BIT(GG_FWD_F16_GNK)             //
                          GG_FWD_WGMMA_TILES(GG_WGMMA_BF16_GKN)              //
                          GG_FWD_WGMMA_TILES(GG_WGMMA_BF16_GNK)              //
                          GG_FWD_WGMMA_TILES(GG_WGMMA_F16_GKN)               //
                          GG_FWD_WGMMA_TILES(GG_WGMMA_F16_GNK)               //
                          GG_FWD_WGMMA_TRANSPOSED_TILES(GG_WGMMAT_BF16_GKN)  //
                          GG_FWD_WGMMA_TRANSPOSED_TILES(GG_WGMMAT_BF16_GNK)  //
                          GG_FWD_WGMMA_TRANSPOSED_TILES(GG_WGMMAT_F16_GKN)   //
                          GG_FWD_WGMMA_TRANSPOSED_TILES(GG_WGMMAT_F16_GNK)   //
                          GG_FWD_TILES_F32(GG_FWD_F32_GKN)                   //
                          GG_FWD_TILES_F32(GG_FWD_F32_GNK)                   //
                          GG_DRHS_TILES_16BIT(GG_DRHS_BF16)                  //
                          GG_DRHS_TILES_16BIT(GG_DRHS_F16)                   //
                          GG_DRHS_TILES_F32(GG_DRHS_F32)};

bool matches(const Entry& entry, const Problem& problem, const TileShape& shape) {
  if (entry.product != problem.product || entry.dtype != problem.dtype) return false;
  if (!(entry.shape == shape)) return false;
  return problem.product == Product::kKGrouped || entry.transpose_rhs == problem.transpose_rhs;
}

}  // namespace

const Kernel* find_kernel(const Problem& problem, const Config& config) {
  const TileShape shape = {config.block_m,      config.block_n,      config.block_k,
                           config.num_stages,   config.num_threads,  0,
                           config.cluster_size, config.is_transposed};
  for (const Entry& entry : kEntries) {
    if (matches(entry, problem, shape)) return &entry.kernel;
  }
  return nullptr;
}

std::string unsupported_reason(const Problem& problem, const DeviceTraits& device) {
  if (device.arch < kMinArch) {
    return "the GPU must have compute capability 8.0 or newer; got " +
           std::to_string(device.arch / 10) + "." + std::to_string(device.arch % 10);
  }
  if (candidate_configs(problem, device).empty()) {
    return "no tile fits the shared memory of a block; got " +
           std::to_string(device.max_smem_block_bytes) + " bytes";
  }
  return "";
}

}  // namespace graphsafe_gg
