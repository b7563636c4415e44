// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Instructions of sm_90a: barriers in shared memory, tensor copies and warpgroup products. Named
// after the sections of the PTX ISA that define them.
#pragma once

#include <cstdint>

#include "kernels/matrix_descriptor.h"
#include "kernels/ptx.cuh"

namespace graphsafe_gg::ptx {

// "mbarrier": a barrier that also counts bytes on their way.
__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

// Makes initialised barriers visible to the cluster and to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void barrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Arrives at the barrier at the same place in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive_at(uint32_t barrier, uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t is_done = 0;
  do {
    asm volatile(
        "{\n"
        ".reg .pred is_done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 is_done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, is_done;\n"
        "}"
        : "=r"(is_done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (is_done == 0);
}

// "bar": of the first kThreads threads of the block that name it.
template <int kThreads>
__device__ __forceinline__ void named_barrier_sync(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}

// "barrier.cluster"
__device__ __forceinline__ void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// "fence.proxy": what ordinary stores wrote is seen by wgmma.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// "setmaxnreg"
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void claim_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// "cp.async.bulk.tensor": a box of the map; what lies outside arrives as zeros. Coordinates are in
// elements, the innermost first. All bytes of the box count at the barrier.
__device__ __forceinline__ void copy_box(uint32_t smem, const void* map, uint32_t barrier, int x,
                                         int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(smem),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

__device__ __forceinline__ void copy_box(uint32_t smem, const void* map, uint32_t barrier, int x,
                                         int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(smem),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ __forceinline__ void copy_box(uint32_t smem, const void* map, uint32_t barrier, int x,
                                         int y, int z, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}

// The same box to the same place in every block of the cluster that `blocks` has a bit for, and its
// bytes to each one's barrier.
__device__ __forceinline__ void copy_box_to_blocks(uint32_t smem, const void* map, uint32_t barrier,
                                                   int x, int y, int z, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void prefetch_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group"
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving or copying accumulators while products are on their way.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
  }
}

#define GG_D8(i)                                                                 \
  "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]), "+f"(d[i + 1][0]), \
      "+f"(d[i + 1][1]), "+f"(d[i + 1][2]), "+f"(d[i + 1][3])
#define GG_D32(i) GG_D8(i), GG_D8(i + 2), GG_D8(i + 4), GG_D8(i + 6)
#define GG_D64(i)                                                                                 \
  GG_D8(i), GG_D8(i + 2), GG_D8(i + 4), GG_D8(i + 6), GG_D8(i + 8), GG_D8(i + 10), GG_D8(i + 12), \
      GG_D8(i + 14)
#define GG_NAMES_32                                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
  "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GG_NAMES_64                                                                         \
  GG_NAMES_32                                                                               \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GG_NAMES_128                                                                        \
  GG_NAMES_64                                                                               \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
  "%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "   \
  "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "      \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "    \
  "%126, %127"

// "wgmma.mma_async" m64nNk16: d += a @ b, or d = a @ b if not `adds`; both in shared memory, a as
// (m, k), b as (k, n) if kBIsKRows, else (n, k).
template <typename T, bool kBIsKRows>
struct Wgmma;

#define GG_WGMMA(type, name)                                                                   \
  template <bool kBIsKRows>                                                                    \
  struct Wgmma<type, kBIsKRows> {                                                              \
    __device__ __forceinline__ static void multiply(float (&d)[8][4], uint64_t a, uint64_t b,  \
                                                    int adds) {                                \
      asm volatile(                                                                            \
          "{\n.reg .pred adds;\nsetp.ne.b32 adds, %34, 0;\n"                                   \
          "wgmma.mma_async.sync.aligned.m64n64k16.f32." name "." name " {" GG_NAMES_32         \
          "}, %32, %33, adds, 1, 1, 0, %35;\n}"                                                \
          : GG_D32(0)                                                                          \
          : "l"(a), "l"(b), "r"(adds), "n"(kBIsKRows ? 1 : 0));                                \
    }                                                                                          \
    __device__ __forceinline__ static void multiply(float (&d)[16][4], uint64_t a, uint64_t b, \
                                                    int adds) {                                \
      asm volatile(                                                                            \
          "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\n"                                   \
          "wgmma.mma_async.sync.aligned.m64n128k16.f32." name "." name " {" GG_NAMES_64        \
          "}, %64, %65, adds, 1, 1, 0, %67;\n}"                                                \
          : GG_D64(0)                                                                          \
          : "l"(a), "l"(b), "r"(adds), "n"(kBIsKRows ? 1 : 0));                                \
    }                                                                                          \
    __device__ __forceinline__ static void multiply(float (&d)[32][4], uint64_t a, uint64_t b, \
                                                    int adds) {                                \
      asm volatile(                                                                            \
          "{\n.reg .pred adds;\nsetp.ne.b32 adds, %130, 0;\n"                                  \
          "wgmma.mma_async.sync.aligned.m64n256k16.f32." name "." name " {" GG_NAMES_128       \
          "}, %128, %129, adds, 1, 1, 0, %131;\n}"                                             \
          : GG_D64(0), GG_D64(16)                                                              \
          : "l"(a), "l"(b), "r"(adds), "n"(kBIsKRows ? 1 : 0));                                \
    }                                                                                          \
  };

GG_WGMMA(Bf16, "bf16")
GG_WGMMA(F16, "f16")

#undef GG_WGMMA
#undef GG_NAMES_128
#undef GG_NAMES_64
#undef GG_NAMES_32
#undef GG_D64
#undef GG_D32
#undef GG_D8

}  // namespace graphsafe_gg::ptx
