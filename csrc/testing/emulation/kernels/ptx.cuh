// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The functions of csrc/kernels/ptx.cuh, emulated.
#pragma once

#include <cstdint>

#include "cpu/vector_kernels.h"
#include "testing/emulation/async_copies.h"
#include "testing/emulation/cuda.h"
#include "testing/emulation/thread_calls.h"
#include "testing/emulation/warp.h"

namespace graphsafe_gg::ptx {

inline uint32_t smem_address(const void* pointer) { return emulation::shared_address(pointer); }

inline uint64_t policy_evict_first() { return 0; }

inline void prefetch_to_l2(const void* address) { emulation::check_global(address, "prefetch"); }
inline void launch_dependents() {}
inline void wait_for_dependencies() {}

inline void cp_async_16(uint32_t smem, const void* src) {
  emulation::copy_async(smem, src, 16, 16);
}

inline void cp_async_16(uint32_t smem, const void* src, uint64_t) { cp_async_16(smem, src); }

inline void cp_async_16_or_zero(uint32_t smem, const void* src, bool is_live) {
  emulation::copy_async(smem, src, 16, is_live ? 16 : 0);
}

inline void cp_async_4(uint32_t smem, const void* src, int src_bytes) {
  emulation::copy_async(smem, src, 4, static_cast<uint32_t>(src_bytes));
}

inline void cp_async_commit() { emulation::commit_copies(); }

template <int kPending>
void cp_async_wait() {
  emulation::wait_for_copies(kPending);
}

inline float4 load_shared_16(uint32_t smem) {
  float v[4];
  emulation::load_shared(smem, v, sizeof(v));
  return {v[0], v[1], v[2], v[3]};
}

inline void store_shared_16(uint32_t smem, const uint32_t (&v)[4]) {
  emulation::store_shared(smem, v, sizeof(v));
}

template <bool kTranspose>
void load_matrix_x4(uint32_t (&r)[4], uint32_t smem) {
  emulation::load_matrix_x4(r, smem, kTranspose);
}

struct Bf16 {
  uint16_t bits;
};

struct F16 {
  uint16_t bits;
};

template <typename T>
constexpr DType kDTypeOf = DType::kF32;
template <>
inline constexpr DType kDTypeOf<Bf16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<F16> = DType::kF16;

template <typename T>
void mma(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulation::mma(kDTypeOf<T>, acc, a, b0, b1);
}

inline uint32_t transpose_8x8(uint32_t pair) { return emulation::transpose_8x8(pair); }

inline float to_float(float value) { return value; }

template <typename T>
float to_float(T value) {
  float widened;
  cpu::to_float(kDTypeOf<T>, &value, 1, &widened);
  return widened;
}

inline uint32_t pack(DType dtype, float low, float high) {
  const float values[2] = {low, high};
  uint32_t packed;
  cpu::from_float(dtype, values, 2, &packed);
  return packed;
}

inline uint32_t pack_bf16(float low, float high) { return pack(DType::kBF16, low, high); }
inline uint32_t pack_f16(float low, float high) { return pack(DType::kF16, low, high); }

}  // namespace graphsafe_gg::ptx
