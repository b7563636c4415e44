// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/wgmma.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cpu/vector_kernels.h"
#include "testing/emulation/cluster.h"
#include "testing/emulation/swizzle.h"

namespace graphsafe_gg::emulation {
namespace {

constexpr int kWarps = 4;  // of a warpgroup
constexpr int kWarpRows = 16;
constexpr int kDepth = 16;
constexpr uint32_t kAtomRowBytes = 128;
constexpr int kAtomElements = 64;  // of 16 bits in a row
constexpr int kChunkElements = 8;

// "Matrix descriptor format"
struct Descriptor {
  uint32_t start;
  uint32_t leading;
  uint32_t stride;
};

Descriptor decode(uint64_t bits) {
  constexpr uint64_t kSwizzle128 = 1;
  const auto field = [bits](int shift) {
    return static_cast<uint32_t>(bits >> shift & 0x3fff) << 4;
  };
  if (bits >> 62 != kSwizzle128 || (bits >> 49 & 7) != 0) {
    scheduler().fail("wgmma: only tiles that are swizzled over 128 bytes are emulated");
  }
  return {field(0), field(16), field(32)};
}

// Eight neighbouring elements, of which the first is at (major, minor): K-major tiles have the
// depth as minor index, MN-major ones the rows or columns of the result.
void load_chunk(Block& block, DType dtype, const Descriptor& tile, bool is_mn_major, int major,
                int minor, float* to) {
  const auto row = static_cast<uint32_t>(major);
  uint32_t address = tile.start + row / 8 * tile.stride + row % 8 * kAtomRowBytes;
  if (is_mn_major) address += static_cast<uint32_t>(minor / kAtomElements) * tile.leading;
  address += static_cast<uint32_t>(minor % kAtomElements) * 2;
  const uint32_t at = block.offset(swizzle_128(address), kSwizzleChunkBytes, kSwizzleChunkBytes,
                                   "an operand of wgmma");
  cpu::to_float(dtype, block.async_view.data() + at, kChunkElements, to);
}

// (rows, depth) of a K-major or (depth, rows) of an MN-major tile.
std::vector<float> load(Block& block, DType dtype, uint64_t descriptor, bool is_mn_major, int first,
                        int rows) {
  const Descriptor tile = decode(descriptor);
  std::vector<float> values(static_cast<size_t>(rows) * kDepth);
  float* to = values.data();
  const int majors = is_mn_major ? kDepth : rows;
  const int minors = is_mn_major ? rows : kDepth;
  for (int major = 0; major < majors; ++major) {
    for (int minor = 0; minor < minors; minor += kChunkElements, to += kChunkElements) {
      load_chunk(block, dtype, tile, is_mn_major, major + (is_mn_major ? 0 : first),
                 minor + (is_mn_major ? first : 0), to);
    }
  }
  return values;
}

std::vector<float> transpose(const std::vector<float>& from, int rows, int cols) {
  std::vector<float> to(from.size());
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      to[static_cast<size_t>(j * rows + i)] = from[static_cast<size_t>(i * cols + j)];
    }
  }
  return to;
}

// Columns 2 * (l % 4) and the next one of every 8 are lane l's, of rows l / 4 and l / 4 + 8.
template <typename Body>
void for_each_pair(const WgmmaProduct& product, float* rows, Body body) {
  const int n = product.shape.n;
  for (int lane = 0; lane < kLanes; ++lane) {
    float* values = product.d[static_cast<size_t>(lane)]->values.data();
    float* first = rows + lane / 4 * n + lane % 4 * 2;
    for (int col = 0; col < n; col += 8, values += 4) {
      body(values, first + col);
      body(values + 2, first + 8 * n + col);
    }
  }
}

// The warp's 16 rows: each element is one chain in ascending depth.
void multiply(Warp& warp, const WgmmaProduct& product) {
  const WgmmaShape& shape = product.shape;
  const WgmmaOperands& operands = product.operands;
  Block& block = *warp.block;
  const int n = shape.n;
  std::vector<float> a = load(block, shape.dtype, operands.a, shape.a_is_mn_major,
                              warp.index % kWarps * kWarpRows, kWarpRows);
  if (shape.a_is_mn_major) a = transpose(a, kDepth, kWarpRows);
  std::vector<float> b = load(block, shape.dtype, operands.b, shape.b_is_mn_major, 0, n);
  if (!shape.b_is_mn_major) b = transpose(b, n, kDepth);
  std::vector<float> rows(static_cast<size_t>(kWarpRows * n), 0.0f);
  if (operands.adds) {
    for_each_pair(product, rows.data(), [](const float* values, float* at) {
      at[0] = values[0];
      at[1] = values[1];
    });
  }
  for (int i = 0; i < kWarpRows; ++i) {
    float* __restrict__ row = rows.data() + i * n;
    for (int k = 0; k < kDepth; ++k) {
      const float left = a[static_cast<size_t>(i * kDepth + k)];
      const float* __restrict__ right = b.data() + k * n;
      for (int j = 0; j < n; ++j) row[j] += left * right[j];
    }
  }
  for_each_pair(product, rows.data(), [](float* values, const float* at) {
    values[0] = at[0];
    values[1] = at[1];
  });
}

// Fails unless the four warps of the warpgroup ask for the same; false until all have.
bool is_complete(const Warp& warp, size_t index) {
  const int first = warp.index / kWarps * kWarps;
  const auto& own = warp.products.products[index];
  for (int i = first; i < first + kWarps; ++i) {
    const WgmmaQueue& other = warp.block->warps[static_cast<size_t>(i)].products;
    if (other.products.size() <= index) return false;
    const WgmmaProduct& product = other.products[index];
    if (product.num_lanes != kLanes) return false;
    if (product.operands.a != own.operands.a || product.operands.b != own.operands.b ||
        product.operands.adds != own.operands.adds || product.shape.n != own.shape.n) {
      scheduler().fail("wgmma: the warps of a warpgroup have different operands");
    }
  }
  return true;
}

// While this lane waits, another one may do some.
void complete(Warp& warp, size_t end) {
  WgmmaQueue& queue = warp.products;
  while (queue.num_done < end) {
    if (is_complete(warp, queue.num_done)) {
      multiply(warp, queue.products[queue.num_done++]);
    } else {
      scheduler().wait_in(queue.waiters, {"wgmma, for threads of the warpgroup to take part"});
    }
  }
}

Accumulators& own(WgmmaLane& lane, float* d, size_t count) {
  for (Accumulators& owned : lane.owned) {
    if (owned.d == d) return owned;
  }
  Accumulators& owned = lane.owned.emplace_back();
  owned.d = d;
  owned.values.assign(d, d + count);
  return owned;
}

}  // namespace

void wgmma_fence() { self().products.is_fenced = true; }

void wgmma_multiply(const WgmmaShape& shape, const WgmmaOperands& operands, float* d) {
  Thread& thread = self();
  WgmmaLane& lane = thread.products;
  if (!lane.is_fenced) scheduler().fail("wgmma without a wgmma.fence before it");
  const auto count = static_cast<size_t>(shape.n) / 2;
  Accumulators& owned = own(lane, d, count);
  owned.last_product = lane.num_issued;
  std::fill(d, d + count, std::numeric_limits<float>::quiet_NaN());
  auto& products = thread.warp->products.products;
  if (lane.num_issued == products.size()) products.push_back({shape, operands, {}, 0});
  WgmmaProduct& product = products[lane.num_issued++];
  if (product.operands.a != operands.a || product.operands.b != operands.b ||
      product.operands.adds != operands.adds) {
    scheduler().fail("wgmma: the lanes of a warp have different operands");
  }
  product.d[thread.lane()] = &owned;
  if (++product.num_lanes != kLanes) return;
  const size_t index = lane.num_issued - 1;
  for (Warp& warp : thread.block->warps) {
    if (warp.index / kWarps != thread.warp->index / kWarps) continue;
    scheduler().wake_all(warp.products.waiters);
  }
  if (!scheduler().acts_at_once() || !is_complete(*thread.warp, index)) return;
  for (Warp& warp : thread.block->warps) {
    if (warp.index / kWarps == thread.warp->index / kWarps) complete(warp, index + 1);
  }
}

void wgmma_commit() {
  WgmmaLane& lane = self().products;
  lane.group_ends.push_back(lane.num_issued);
}

void wgmma_wait(size_t max_pending) {
  scheduler().pause();
  Thread& thread = self();
  WgmmaLane& lane = thread.products;
  if (lane.group_ends.size() <= max_pending) return;
  const size_t end = lane.group_ends[lane.group_ends.size() - 1 - max_pending];
  complete(*thread.warp, end);
  lane.owned.remove_if([end](const Accumulators& owned) {
    if (owned.last_product >= end) return false;
    std::copy(owned.values.begin(), owned.values.end(), owned.d);
    return true;
  });
  if (lane.owned.empty()) lane.is_fenced = false;
}

}  // namespace graphsafe_gg::emulation
