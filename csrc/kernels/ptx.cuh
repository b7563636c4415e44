// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The machine instructions that the kernels use, one function each, named after the section of the
// PTX ISA that defines them. All run on sm_80 and later.
#pragma once

#include <cstdint>

namespace graphsafe_gg::ptx {

__device__ __forceinline__ uint32_t smem_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// "createpolicy": tells L2 to give up first what a load brings in.
__device__ __forceinline__ uint64_t policy_evict_first() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// "prefetch": the line of 128 bytes that holds the address.
__device__ __forceinline__ void prefetch_to_l2(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// "griddepcontrol": a kernel behind this one on the stream may start, if it was launched for that.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Until the kernels before this one have ended and what they wrote is there.
__device__ __forceinline__ void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// "cp.async": copies 16 bytes; both addresses must be multiples of 16. A run-time byte count would
// cost ten instructions a copy, a predicate costs none.
__device__ __forceinline__ void cp_async_16(uint32_t smem, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem), "l"(src) : "memory");
}

__device__ __forceinline__ void cp_async_16(uint32_t smem, const void* src, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(smem), "l"(src),
               "l"(policy)
               : "memory");
}

// Copies 16 bytes, or writes 16 zeros and reads nothing.
__device__ __forceinline__ void cp_async_16_or_zero(uint32_t smem, const void* src, bool is_live) {
  asm volatile(
      "{\n"
      ".reg .pred is_dead;\n"
      "setp.eq.u32 is_dead, %2, 0;\n"
      "cp.async.cg.shared.global [%0], [%1], 16, is_dead;\n"
      "}" ::"r"(smem),
      "l"(src), "r"(static_cast<uint32_t>(is_live))
      : "memory");
}

// Copies `src_bytes` (0 to 4) and fills the rest of the 4 with zeros; both addresses must be
// multiples of 4.
__device__ __forceinline__ void cp_async_4(uint32_t smem, const void* src, int src_bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem), "l"(src), "r"(src_bytes)
               : "memory");
}

// "cp.async.commit_group"
__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// "cp.async.wait_group": until at most kPending of this thread's groups are on their way.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// "ld", "st": 16 bytes of shared memory.
__device__ __forceinline__ float4 load_shared_16(uint32_t smem) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(smem)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_shared_16(uint32_t smem, const uint32_t (&v)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(v[0]), "r"(v[1]),
               "r"(v[2]), "r"(v[3])
               : "memory");
}

// "ldmatrix": four 8x8 matrices of 16-bit elements; lane l names the row l % 8 of matrix l / 8.
template <bool kTranspose>
__device__ __forceinline__ void load_matrix_x4(uint32_t (&r)[4], uint32_t smem) {
  if constexpr (kTranspose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem)
                 : "memory");
  }
}

struct Bf16 {
  uint16_t bits;
};

struct F16 {
  uint16_t bits;
};

// "mma" m16n8k16: acc += a @ b with float32 accumulation.
template <typename T>
__device__ __forceinline__ void mma(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1);

template <>
__device__ __forceinline__ void mma<Bf16>(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0,
                                          uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma<F16>(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// "movmatrix": transposes an 8 x 8 matrix of 16-bit elements, two neighbours of a row in each lane.
__device__ __forceinline__ uint32_t transpose_8x8(uint32_t pair) {
  uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

__device__ __forceinline__ float to_float(float value) { return value; }

__device__ __forceinline__ float to_float(Bf16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ float to_float(F16 value) {
  float widened;
  asm("cvt.f32.f16 %0, %1;" : "=f"(widened) : "h"(value.bits));
  return widened;
}

// "cvt": two floats rounded to nearest even; `low` goes to the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace graphsafe_gg::ptx
