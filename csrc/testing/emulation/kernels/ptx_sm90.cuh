// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The functions of csrc/kernels/ptx_sm90.cuh, emulated.
#pragma once

#include <cstdint>

#include "kernels/ptx.cuh"
#include "testing/emulation/barriers.h"
#include "testing/emulation/wgmma.h"

namespace graphsafe_gg::ptx {

inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
  emulation::mbarrier_init(barrier, arrivals);
}

inline void fence_barrier_init() { emulation::fence_barrier_init(); }

inline void barrier_arrive(uint32_t barrier) {
  emulation::mbarrier_arrive(barrier, emulation::cluster_rank(), /*is_remote=*/false);
}

inline void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  emulation::mbarrier_expect(barrier, bytes);
  barrier_arrive(barrier);
}

inline void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  emulation::mbarrier_arrive(barrier, rank, /*is_remote=*/true);
}

inline void barrier_wait(uint32_t barrier, uint32_t parity) {
  emulation::mbarrier_wait(barrier, parity);
}

template <int kThreads>
void named_barrier_sync(int id) {
  emulation::sync_threads(id, kThreads);
}

inline void cluster_sync() { emulation::sync_cluster(); }
inline uint32_t cluster_rank() { return emulation::cluster_rank(); }
inline void fence_proxy_async() { emulation::fence_async(); }

template <int kRegisters>
void release_registers() {}
template <int kRegisters>
void claim_registers() {}

inline void copy_box(uint32_t smem, const void* map, uint32_t barrier, int x, int y) {
  emulation::copy_box_async({map, smem, barrier, {x, y}}, 0);
}

inline void copy_box(uint32_t smem, const void* map, uint32_t barrier, int x, int y, int z) {
  emulation::copy_box_async({map, smem, barrier, {x, y, z}}, 0);
}

inline void copy_box(uint32_t smem, const void* map, uint32_t barrier, int x, int y, int z,
                     uint64_t) {
  copy_box(smem, map, barrier, x, y, z);
}

inline void copy_box_to_blocks(uint32_t smem, const void* map, uint32_t barrier, int x, int y,
                               uint16_t blocks) {
  emulation::copy_box_async({map, smem, barrier, {x, y}}, blocks);
}

inline void copy_box_to_blocks(uint32_t smem, const void* map, uint32_t barrier, int x, int y,
                               int z, uint16_t blocks) {
  emulation::copy_box_async({map, smem, barrier, {x, y, z}}, blocks);
}

inline void prefetch_map(const void*) {}

inline void wgmma_fence() { emulation::wgmma_fence(); }
inline void wgmma_commit() { emulation::wgmma_commit(); }

template <int kPending>
void wgmma_wait() {
  emulation::wgmma_wait(kPending);
}

template <int kCount>
void pin(float (&)[kCount][4]) {}

}  // namespace graphsafe_gg::ptx
