// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What every kernel does first: it meets its neighbours on the stream, and asks the guard behind a
// launch that trusted sizes on the host.
#pragma once

#include <cstdint>

#include "kernels/kernel_args.h"
#include "kernels/local_groups.h"
#include "kernels/ptx.cuh"

namespace graphsafe_gg {

// True if this launch is a guard and finds the sizes that the host trusted: nothing is to be done.
// The same in every thread of the grid.
__device__ __forceinline__ bool guard_holds(const KernelArgs& args) {
  if (args.guard_stamp == nullptr) return false;
  if (*args.guard_stamp == args.expected_stamp) return true;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(args.guard_trips), 1ull);
  }
  return false;
}

struct NoWeights {
  __device__ static void prefetch(const KernelArgs&) {}
};

// The first kDepth rows, along k, of the tile of weights that this block begins with if every group
// has rows, but few of them. kTileBlocks neighbours have one tile.
template <typename T, bool kTransposeRhs, int kBlockN, int kDepth, int kTileBlocks = 1>
struct FirstWeights {
  __device__ static void prefetch(const KernelArgs& args) {
    const int64_t num_n_tiles = (args.n + kBlockN - 1) / kBlockN;
    const int64_t tile = blockIdx.x / kTileBlocks;
    const int64_t group = tile / num_n_tiles;
    // An index on the device may be what the kernel before this one writes.
    const int64_t layer = args.layer.value;
    if (args.layer.address != nullptr || !is_legal_layer(layer, args.num_layers)) return;
    if (group >= args.num_groups) return;
    const int64_t col = (tile - group * num_n_tiles) * kBlockN;
    const int64_t cols = args.n - col < kBlockN ? args.n - col : kBlockN;
    const int64_t depth = args.k < kDepth ? args.k : kDepth;
    const T* const matrix =
        static_cast<const T*>(args.rhs) + (layer * args.num_groups + group) * args.k * args.n;
    if constexpr (kTransposeRhs) {
      prefetch_rows(matrix + col * args.k, args.k, cols, depth);
    } else {
      prefetch_rows(matrix + col, args.n, depth, cols);
    }
  }

 private:
  __device__ static void prefetch_rows(const T* first, int64_t stride, int64_t rows, int64_t cols) {
    constexpr int kLineElements = 128 / static_cast<int>(sizeof(T));
    const auto lines = static_cast<int>((cols + kLineElements - 1) / kLineElements);
    const int count = static_cast<int>(rows) * lines;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      ptx::prefetch_to_l2(first + i / lines * stride + i % lines * kLineElements);
    }
  }
};

// False if there is nothing to do. Until it returns, only weights may have been read: the kernel
// before this one on the stream may still run, if this one was launched to start early.
template <class Weights>
__device__ __forceinline__ bool start_kernel(const KernelArgs& args) {
  if (args.starts_early != 0) Weights::prefetch(args);
  ptx::wait_for_dependencies();
  // Not before the wait: what came before this kernel has then ended for the next one, too. Only
  // between such launches: a next kernel that was not made for it may not wait by itself.
  if (args.starts_early != 0) ptx::launch_dependents();
  return !guard_holds(args);
}

}  // namespace graphsafe_gg
