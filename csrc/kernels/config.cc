// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/config.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/kernel_list.h"

namespace graphsafe_gg {
namespace {

// Shared memory that the driver keeps for itself in every block.
constexpr int kReservedSmemBytes = 1024;

// Mean rows per group up to which tiles of 16, 32 and 64 rows measured faster than taller ones,
// with sizes as uneven as a router's. Weights as (g, n, k) have the faster 16-row tile.
constexpr int64_t kMaxMeanRows16Gkn = 5;
constexpr int64_t kMaxMeanRows16Gnk = 20;
constexpr int64_t kMaxMeanRows32 = 32;
constexpr int64_t kMaxMeanRows64 = 64;

// The same for the kernels on mma.sync where there is wgmma, and for each shape of those on wgmma
// but the last.
constexpr int64_t kMaxMeanRowsMmaGkn = 32;
constexpr int64_t kMaxMeanRowsMmaGnk = 8;
constexpr int64_t kMaxMeanRowsWgmma[] = {48, 96, 160};

#define GG_SHAPE(bm, bn, bk, stages, threads, per_sm) {bm, bn, bk, stages, threads, per_sm, 0},
#define GG_WGMMA_SHAPE(bm, bn, bk, stages, threads, per_sm, cluster) \
  {bm, bn, bk, stages, threads, per_sm, cluster},
#define GG_TRANSPOSED_SHAPE(bm, bn, bk, stages, threads, per_sm, cluster) \
  {bm, bn, bk, stages, threads, per_sm, cluster, true},
constexpr TileShape kFwdGkn16Bit[] = {GG_FWD_GKN_TILES_16BIT(GG_SHAPE)};
constexpr TileShape kFwdGnk16Bit[] = {GG_FWD_GNK_TILES_16BIT(GG_SHAPE)};
constexpr TileShape kFwdWgmma[] = {GG_FWD_WGMMA_TILES(GG_WGMMA_SHAPE)};
constexpr TileShape kFwdTransposed[] = {GG_FWD_WGMMA_TRANSPOSED_TILES(GG_TRANSPOSED_SHAPE)};
constexpr TileShape kFwdF32[] = {GG_FWD_TILES_F32(GG_SHAPE)};
constexpr TileShape kDrhs16Bit[] = {GG_DRHS_TILES_16BIT(GG_SHAPE)};
constexpr TileShape kDrhsF32[] = {GG_DRHS_TILES_F32(GG_SHAPE)};
#undef GG_TRANSPOSED_SHAPE
#undef GG_WGMMA_SHAPE
#undef GG_SHAPE

struct TileShapes {
  const TileShape* first;
  size_t count;

  template <size_t kCount>
  constexpr TileShapes(const TileShape (&shapes)[kCount]) : first(shapes), count(kCount) {}
  const TileShape* begin() const { return first; }
  const TileShape* end() const { return first + count; }
};

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t saturating_mul(int64_t a, int64_t b) {
  return a != 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

bool holds_mean(const Problem& problem, int64_t rows) {
  return problem.m <= saturating_mul(problem.num_sizes, rows);
}

// Whether there are kernels on wgmma and tensor maps can describe the operands.
bool can_take_wgmma(const Problem& problem, const DeviceTraits& device) {
  constexpr int64_t kRowElements = 8;  // 16 bytes, which tensor maps ask of every row
  constexpr int64_t kMaxExpertBytes = int64_t{1} << 40;
  if (device.arch != 90 || problem.product != Product::kMGrouped) return false;
  if (problem.dtype == DType::kF32 || problem.num_groups == 0 || problem.num_layers == 0 ||
      problem.k == 0)
    return false;
  if (problem.k % kRowElements != 0 || problem.n % kRowElements != 0) return false;
  const int64_t matrices = saturating_mul(problem.num_layers, problem.num_groups);
  const int64_t longest = std::max({problem.m, problem.k, problem.n, matrices});
  const int64_t expert_bytes =
      saturating_mul(saturating_mul(problem.k, problem.n), size_bytes(problem.dtype));
  return longest <= INT32_MAX && expert_bytes < kMaxExpertBytes;
}

// Static facts alone, so that a row's bits do not depend on the sizes even if wgmma and mma.sync
// should add up differently.
bool takes_wgmma(const Problem& problem, const DeviceTraits& device) {
  if (!can_take_wgmma(problem, device)) return false;
  return !holds_mean(problem, problem.transpose_rhs ? kMaxMeanRowsMmaGnk : kMaxMeanRowsMmaGkn);
}

TileShapes tile_shapes(const Problem& problem, const DeviceTraits& device) {
  if (takes_wgmma(problem, device)) return kFwdWgmma;
  if (problem.product == Product::kKGrouped) {
    return problem.dtype == DType::kF32 ? TileShapes(kDrhsF32) : TileShapes(kDrhs16Bit);
  }
  if (problem.dtype == DType::kF32) return kFwdF32;
  return problem.transpose_rhs ? TileShapes(kFwdGnk16Bit) : TileShapes(kFwdGkn16Bit);
}

// Share of the blocks that the last round of tiles keeps busy, over all rounds. The number of tiles
// is a guess: every group that can have rows gets one row of tiles, and large groups more.
double expected_occupancy(const Problem& problem, const Config& config,
                          const DeviceTraits& device) {
  const int64_t groups = std::min(problem.num_groups, problem.m);
  const int64_t more = problem.m / config.block_m - groups / 2;
  const int64_t m_tiles = groups + std::max<int64_t>(0, more);
  const double tiles =
      static_cast<double>(m_tiles) * static_cast<double>(ceil_div(problem.n, config.block_n));
  const double blocks = static_cast<double>(device.num_sms) * config.blocks_per_sm;
  return tiles <= 0 ? 1.0 : tiles / (blocks * std::ceil(tiles / blocks));
}

// A tile that rows of 16-bit weights cross at half a line of DRAM reads the other half in vain.
double wasted_lines(const Problem& problem, const Config& config) {
  constexpr int64_t kLineElements = 128;
  if (problem.transpose_rhs || problem.n % kLineElements == 0) return 0.0;
  return 0.1 * static_cast<double>(kLineElements) / 2 / config.block_n;
}

// What is lost in the last round, to barriers that no other block hides, and at the tile's edges.
double expected_loss(const Problem& problem, const Config& config, const DeviceTraits& device) {
  return 1.0 - expected_occupancy(problem, config, device) + 0.2 / config.blocks_per_sm +
         wasted_lines(problem, config);
}

// Whether tiles of 64 rows are too few for the GPU, each group having one row of them.
bool is_narrow(const Problem& problem, const DeviceTraits& device) {
  constexpr int64_t kBlockN = 128;
  constexpr int64_t kBlocksPerSm = 3;
  return saturating_mul(problem.num_groups, ceil_div(problem.n, kBlockN)) <
         device.num_sms * kBlocksPerSm;
}

int preferred_block_m(const Problem& problem, const DeviceTraits& device, int64_t max_group_rows) {
  if (max_group_rows >= 0 && max_group_rows <= 16) return 16;
  if (max_group_rows >= 0 && max_group_rows <= 64) return 64;
  const int64_t rows_16 = problem.transpose_rhs ? kMaxMeanRows16Gnk : kMaxMeanRows16Gkn;
  if (max_group_rows < 0 && holds_mean(problem, rows_16)) return 16;
  if (holds_mean(problem, kMaxMeanRows32) && is_narrow(problem, device)) return 32;
  return holds_mean(problem, kMaxMeanRows64) ? 64 : 128;
}

// The first order of configurations on mma.sync: tiles that hold block_m rows, the smallest of them
// in front. Equals are ordered by what is lost.
std::pair<bool, int> mma_order(const Config& config, int block_m) {
  const bool is_short = config.block_m < block_m;
  return {is_short, is_short ? -config.block_m : config.block_m};
}

// Those on wgmma are listed by the rows per group that they suit.
size_t best_wgmma(const std::vector<Config>& configs, const Problem& problem,
                  int64_t max_group_rows) {
  size_t best = 0;
  if (max_group_rows < 0 || max_group_rows > configs.front().block_m) {
    for (const int64_t rows : kMaxMeanRowsWgmma) best += !holds_mean(problem, rows);
  }
  return std::min(best, configs.size() - 1);
}

size_t best_mma(const std::vector<Config>& configs, const Problem& problem,
                const DeviceTraits& device, int64_t max_group_rows) {
  const int block_m = preferred_block_m(problem, device, max_group_rows);
  auto first = mma_order(configs.front(), block_m);
  for (const Config& config : configs) first = std::min(first, mma_order(config, block_m));
  size_t best = 0;
  double best_loss = HUGE_VAL;
  for (size_t i = 0; i < configs.size(); ++i) {
    if (mma_order(configs[i], block_m) != first) continue;
    const double loss = expected_loss(problem, configs[i], device);
    if (loss >= best_loss) continue;
    best = i;
    best_loss = loss;
  }
  return best;
}

bool is_wgmma(const std::vector<Config>& configs) { return configs.front().cluster_size > 0; }

std::vector<Config> legal_configs(const Problem& problem, const DeviceTraits& device,
                                  const TileShapes& shapes) {
  std::vector<Config> configs;
  configs.reserve(shapes.count);
  for (const TileShape& shape : shapes) {
    const int bytes = smem_bytes(shape, static_cast<int>(size_bytes(problem.dtype)));
    const int fitting = device.max_smem_sm_bytes / (bytes + kReservedSmemBytes);
    if (bytes > device.max_smem_block_bytes || fitting < 1) continue;
    configs.push_back({shape.block_m, shape.block_n, shape.block_k, shape.num_stages,
                       shape.num_threads, std::min(shape.blocks_per_sm, fitting),
                       shape.cluster_size, shape.is_transposed, bytes});
  }
  return configs;
}

// Those that choose_config may return, in the order of its preference without sizes.
void sort(std::vector<Config>& configs, const Problem& problem, const DeviceTraits& device) {
  if (is_wgmma(configs)) {
    const auto best = static_cast<std::ptrdiff_t>(best_wgmma(configs, problem, -1));
    std::rotate(configs.begin(), configs.begin() + best, configs.end());
    return;
  }
  const int block_m = preferred_block_m(problem, device, -1);
  std::stable_sort(configs.begin(), configs.end(), [&](const Config& a, const Config& b) {
    const auto order_a = mma_order(a, block_m);
    const auto order_b = mma_order(b, block_m);
    if (order_a != order_b) return order_a < order_b;
    return expected_loss(problem, a, device) < expected_loss(problem, b, device);
  });
}

// Most tiles that any sizes can give: each group rounds its rows up once. The blocks of a cluster
// have one tile together.
int64_t max_num_tiles(const Problem& problem, const Config& config) {
  const int64_t cluster = std::max(config.cluster_size, 1);
  const int64_t tile_m = config.block_m * (config.is_transposed ? 1 : cluster);
  const int64_t tile_n = config.block_n * (config.is_transposed ? cluster : 1);
  const int64_t num_n_tiles = ceil_div(problem.n, tile_n);
  if (problem.product == Product::kKGrouped) {
    const int64_t per_group = saturating_mul(ceil_div(problem.k, tile_m), num_n_tiles);
    return saturating_mul(problem.num_groups, per_group);
  }
  const int64_t num_m_tiles = problem.m / tile_m + std::min(problem.num_groups, problem.m);
  return saturating_mul(num_m_tiles, num_n_tiles);
}

}  // namespace

bool operator==(const Config& a, const Config& b) {
  return a.block_m == b.block_m && a.block_n == b.block_n && a.block_k == b.block_k &&
         a.num_stages == b.num_stages && a.num_threads == b.num_threads &&
         a.blocks_per_sm == b.blocks_per_sm && a.cluster_size == b.cluster_size &&
         a.is_transposed == b.is_transposed && a.smem_bytes == b.smem_bytes;
}

std::string to_string(const Config& config) {
  return "m" + std::to_string(config.block_m) + "n" + std::to_string(config.block_n) + "k" +
         std::to_string(config.block_k) + "s" + std::to_string(config.num_stages) +
         " threads=" + std::to_string(config.num_threads) +
         " blocks_per_sm=" + std::to_string(config.blocks_per_sm) +
         " cluster_size=" + std::to_string(config.cluster_size) +
         (config.is_transposed ? " transposed" : "") + " smem=" + std::to_string(config.smem_bytes);
}

std::vector<Config> candidate_configs(const Problem& problem, const DeviceTraits& device) {
  std::vector<Config> configs = legal_configs(problem, device, tile_shapes(problem, device));
  if (configs.empty()) return configs;
  sort(configs, problem, device);
  if (can_take_wgmma(problem, device)) {
    const std::vector<Config> more = legal_configs(problem, device, kFwdTransposed);
    configs.insert(configs.end(), more.begin(), more.end());
  }
  return configs;
}

// At every launch: no sorting.
Config choose_config(const Problem& problem, const DeviceTraits& device, int64_t max_group_rows) {
  const std::vector<Config> configs = legal_configs(problem, device, tile_shapes(problem, device));
  if (configs.empty()) return Config{};
  return configs[is_wgmma(configs) ? best_wgmma(configs, problem, max_group_rows)
                                   : best_mma(configs, problem, device, max_group_rows)];
}

int64_t grid_blocks(const Problem& problem, const Config& config, const DeviceTraits& device) {
  const int64_t cluster = std::max(config.cluster_size, 1);
  const int64_t resident = int64_t{device.num_sms} * config.blocks_per_sm / cluster;
  return cluster * std::max<int64_t>(1, std::min(resident, max_num_tiles(problem, config)));
}

}  // namespace graphsafe_gg
