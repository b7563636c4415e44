// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// "wgmma" of the PTX ISA. A warp's quarter of a product reads shared memory when the warp waits for
// it, and its accumulators read as NaN until then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "kernels/problem.h"
#include "testing/emulation/scheduler.h"

namespace graphsafe_gg::emulation {

// m64nNk16: d += a @ b, or d = a @ b.
struct WgmmaShape {
  DType dtype;
  int n;
  bool a_is_mn_major;
  bool b_is_mn_major;
};

struct WgmmaOperands {
  uint64_t a;  // matrix descriptors
  uint64_t b;
  bool adds;
};

// Accumulators of a thread that products on their way own.
struct Accumulators {
  float* d = nullptr;
  std::vector<float> values;
  size_t last_product = 0;  // that owns them
};

// What one thread has asked for.
struct WgmmaLane {
  size_t num_issued = 0;
  std::vector<size_t> group_ends;  // in products
  std::list<Accumulators> owned;
  bool is_fenced = false;
};

// A warp's quarter of one product.
struct WgmmaProduct {
  WgmmaShape shape;
  WgmmaOperands operands;
  std::array<Accumulators*, 32> d;
  int num_lanes = 0;
};

struct WgmmaQueue {
  std::deque<WgmmaProduct> products;  // from the first on
  size_t num_done = 0;
  Waiters waiters;
};

void wgmma_fence();
void wgmma_multiply(const WgmmaShape& shape, const WgmmaOperands& operands, float* d);
void wgmma_commit();
void wgmma_wait(size_t max_pending);

}  // namespace graphsafe_gg::emulation
