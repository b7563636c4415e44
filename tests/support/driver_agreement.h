// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Compares the hand-written driver declarations with cuda.h, at compile time. The checks, one per
// function and constant, are added by tests/unit/test_driver_declarations.py.
#pragma once

// Declares each version of a function under its own name.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "runtime/cuda_api.h"

// Types agree if they are the same, as integers of one size and sign, where ours is int for an
// enum, and where ours is void for what a handle points to.
template <typename Ours, typename Theirs>
constexpr bool is_same_value() {
  if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  } else if constexpr (std::is_same_v<Ours, int> && std::is_enum_v<Theirs>) {
    return sizeof(Theirs) == sizeof(int);
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

template <typename Ours, typename Theirs>
struct Agree : std::bool_constant<is_same_value<Ours, Theirs>()> {};

template <typename Ours, typename Theirs>
struct Agree<Ours*, Theirs*>
    : std::bool_constant<std::is_const_v<Ours> == std::is_const_v<Theirs> &&
                         (Agree<std::remove_cv_t<Ours>, std::remove_cv_t<Theirs>>::value ||
                          (std::is_void_v<Ours> && !std::is_arithmetic_v<Theirs>))> {};

template <>
struct Agree<graphsafe_gg::cuda::LaunchConfig, CUlaunchConfig>
    : std::bool_constant<sizeof(graphsafe_gg::cuda::LaunchConfig) == sizeof(CUlaunchConfig) &&
                         offsetof(graphsafe_gg::cuda::LaunchConfig, block) ==
                             offsetof(CUlaunchConfig, blockDimX) &&
                         offsetof(graphsafe_gg::cuda::LaunchConfig, smem_bytes) ==
                             offsetof(CUlaunchConfig, sharedMemBytes) &&
                         offsetof(graphsafe_gg::cuda::LaunchConfig, stream) ==
                             offsetof(CUlaunchConfig, hStream) &&
                         offsetof(graphsafe_gg::cuda::LaunchConfig, attributes) ==
                             offsetof(CUlaunchConfig, attrs) &&
                         offsetof(graphsafe_gg::cuda::LaunchConfig, num_attributes) ==
                             offsetof(CUlaunchConfig, numAttrs) &&
                         sizeof(graphsafe_gg::cuda::LaunchAttribute) == sizeof(CUlaunchAttribute) &&
                         offsetof(graphsafe_gg::cuda::LaunchAttribute, value) ==
                             offsetof(CUlaunchAttribute, value)> {};

template <typename R, typename... P, typename S, typename... Q>
struct Agree<R (*)(P...), S (*)(Q...)> {
  static constexpr bool all() {
    if constexpr (sizeof...(P) != sizeof...(Q)) {
      return false;
    } else {
      return Agree<R, S>::value && (Agree<P, Q>::value && ...);
    }
  }
  static constexpr bool value = all();
};

static_assert(Agree<int (*)(const void**), CUresult (*)(const CUgraphNode**)>::value);
static_assert(!Agree<int (*)(int), CUresult (*)(unsigned)>::value);
static_assert(!Agree<int (*)(int), CUresult (*)(int, int)>::value);
static_assert(!Agree<int (*)(int*), CUresult (*)(const int*)>::value);
static_assert(!Agree<int (*)(CUstream), CUresult (*)(CUevent)>::value);
static_assert(!Agree<int (*)(void*), CUresult (*)(int*)>::value);

#define CHECK_FUNCTION(member, symbol)                                                      \
  static_assert(Agree<decltype(graphsafe_gg::CudaApi::member), decltype(&::symbol)>::value, \
                "CudaApi::" #member " differs from " #symbol)

#define CHECK_CONSTANT(ours, theirs)                                                      \
  static_assert(                                                                          \
      static_cast<long long>(graphsafe_gg::cuda::ours) == static_cast<long long>(theirs), \
      "cuda::" #ours " differs from " #theirs)
