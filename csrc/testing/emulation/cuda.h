// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What CUDA C++ has built in, for kernels that a host compiler compiles.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "testing/emulation/thread_calls.h"
#include "testing/emulation/warp.h"

#define __device__
#define __host__
#define __global__
#define __shared__
#define __grid_constant__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))

struct GridDim {
  unsigned x;
};
extern GridDim threadIdx;
extern GridDim blockIdx;
extern GridDim gridDim;
extern GridDim blockDim;

// Their type asks for no alignment, so that the compiler leaves the check in.
template <typename T, int kCount>
struct CudaVector {
  T x, y, z, w;

  CudaVector() = default;
  CudaVector(const CudaVector&) = default;
  CudaVector(T first, T second, T third, T fourth) : x(first), y(second), z(third), w(fourth) {}
  CudaVector& operator=(const CudaVector& other) {
    graphsafe_gg::emulation::check_alignment(this, sizeof(*this));
    std::memcpy(static_cast<void*>(this), &other, sizeof(*this));
    return *this;
  }
};

template <typename T>
struct CudaVector<T, 2> {
  T x, y;

  CudaVector() = default;
  CudaVector(const CudaVector&) = default;
  CudaVector(T first, T second) : x(first), y(second) {}
  CudaVector& operator=(const CudaVector& other) {
    graphsafe_gg::emulation::check_alignment(this, sizeof(*this));
    std::memcpy(static_cast<void*>(this), &other, sizeof(*this));
    return *this;
  }
};

using float4 = CudaVector<float, 4>;
using uint4 = CudaVector<unsigned, 4>;
using uint2 = CudaVector<unsigned, 2>;

inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline int __ffs(int bits) { return __builtin_ffs(bits); }

inline void __syncthreads() { graphsafe_gg::emulation::sync_block(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { graphsafe_gg::emulation::sync_warp(mask); }
inline unsigned __ballot_sync(unsigned mask, bool predicate) {
  return graphsafe_gg::emulation::ballot(mask, predicate);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lane_bits) {
  return graphsafe_gg::emulation::shuffle(mask, value, threadIdx.x % 32 ^ lane_bits);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
  return graphsafe_gg::emulation::shuffle(mask, value, threadIdx.x % 32 - delta);
}

// One thread runs at a time.
template <typename T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address += value;
  return before;
}

inline void __threadfence_system() {}
