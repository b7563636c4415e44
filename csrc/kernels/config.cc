// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/config.h"

#include <algorithm>

#include "kernels/kernel_list.h"

namespace graphsafe_gg {
namespace {

// Shared memory that the driver keeps for itself in every block.
constexpr int kReservedSmemBytes = 1024;

// Mean rows per group up to which a group's rows are expected to fit one 64-row tile.
constexpr int64_t kMaxMeanRowsSmallTile = 24;

#define GG_SHAPE(bm, bn, bk, stages, threads, per_sm) {bm, bn, bk, stages, threads, per_sm},
constexpr TileShape kFwd16Bit[] = {GG_FWD_TILES_16BIT(GG_SHAPE)};
constexpr TileShape kFwdF32[] = {GG_FWD_TILES_F32(GG_SHAPE)};
constexpr TileShape kDrhs16Bit[] = {GG_DRHS_TILES_16BIT(GG_SHAPE)};
constexpr TileShape kDrhsF32[] = {GG_DRHS_TILES_F32(GG_SHAPE)};
#undef GG_SHAPE

std::vector<TileShape> tile_shapes(const Problem& problem) {
  const bool is_f32 = problem.dtype == DType::kF32;
  if (problem.product == Product::kMGrouped) {
    return is_f32 ? std::vector<TileShape>(std::begin(kFwdF32), std::end(kFwdF32))
                  : std::vector<TileShape>(std::begin(kFwd16Bit), std::end(kFwd16Bit));
  }
  return is_f32 ? std::vector<TileShape>(std::begin(kDrhsF32), std::end(kDrhsF32))
                : std::vector<TileShape>(std::begin(kDrhs16Bit), std::end(kDrhs16Bit));
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t saturating_mul(int64_t a, int64_t b) {
  return a != 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

// Rows of a typical large group, from static facts when the sizes are unknown.
bool prefers_small_tile(const Problem& problem, int64_t max_group_rows) {
  if (max_group_rows >= 0) return max_group_rows <= 64;
  return problem.m <= saturating_mul(problem.num_groups, kMaxMeanRowsSmallTile);
}

// Most tiles that any sizes can give: each group rounds its rows up to block_m once.
int64_t max_num_tiles(const Problem& problem, const Config& config) {
  const int64_t num_n_tiles = ceil_div(problem.n, config.block_n);
  if (problem.product == Product::kKGrouped) {
    const int64_t per_group = saturating_mul(ceil_div(problem.k, config.block_m), num_n_tiles);
    return saturating_mul(problem.num_groups, per_group);
  }
  const int64_t num_m_tiles = problem.m / config.block_m + std::min(problem.num_groups, problem.m);
  return saturating_mul(num_m_tiles, num_n_tiles);
}

}  // namespace

bool operator==(const Config& a, const Config& b) {
  return a.block_m == b.block_m && a.block_n == b.block_n && a.block_k == b.block_k &&
         a.num_stages == b.num_stages && a.num_threads == b.num_threads &&
         a.blocks_per_sm == b.blocks_per_sm && a.smem_bytes == b.smem_bytes;
}

std::string to_string(const Config& config) {
  return "m" + std::to_string(config.block_m) + "n" + std::to_string(config.block_n) + "k" +
         std::to_string(config.block_k) + "s" + std::to_string(config.num_stages) +
         " threads=" + std::to_string(config.num_threads) +
         " blocks_per_sm=" + std::to_string(config.blocks_per_sm) +
         " smem=" + std::to_string(config.smem_bytes);
}

std::vector<Config> candidate_configs(const Problem& problem, const DeviceTraits& device) {
  std::vector<Config> configs;
  for (const TileShape& shape : tile_shapes(problem)) {
    const int bytes = smem_bytes(shape, static_cast<int>(size_bytes(problem.dtype)));
    const int fitting = device.max_smem_sm_bytes / (bytes + kReservedSmemBytes);
    if (bytes > device.max_smem_block_bytes || fitting < 1) continue;
    configs.push_back({shape.block_m, shape.block_n, shape.block_k, shape.num_stages,
                       shape.num_threads, std::min(shape.blocks_per_sm, fitting), bytes});
  }
  const bool wants_small = prefers_small_tile(problem, /*max_group_rows=*/-1);
  std::stable_partition(configs.begin(), configs.end(), [&](const Config& config) {
    return (config.block_m <= 64) == wants_small;
  });
  return configs;
}

Config choose_config(const Problem& problem, const DeviceTraits& device, int64_t max_group_rows) {
  const std::vector<Config> configs = candidate_configs(problem, device);
  if (configs.empty()) return Config{};
  const bool wants_small = prefers_small_tile(problem, max_group_rows);
  for (const Config& config : configs) {
    if ((config.block_m <= 64) == wants_small) return config;
  }
  return configs.front();
}

int64_t grid_blocks(const Problem& problem, const Config& config, const DeviceTraits& device) {
  const int64_t resident = int64_t{device.num_sms} * config.blocks_per_sm;
  return std::max<int64_t>(1, std::min(resident, max_num_tiles(problem, config)));
}

}  // namespace graphsafe_gg
