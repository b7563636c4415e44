// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Compile-time checks of csrc/runtime/cublaslt_{types,api}.h against cublasLt.h. Handles are opaque
// to us, so functions are compared as the machine sees them: number and kind of parameters.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <type_traits>

#include "runtime/cublaslt_api.h"

namespace graphsafe_gg::agreement {

template <class Ours, class Theirs>
constexpr bool is_same_kind() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}

template <class Ours, class Theirs>
struct Functions {
  static constexpr bool kAgree = false;
};

template <class R1, class... P1, class R2, class... P2>
struct Functions<R1 (*)(P1...), R2(P2...)> {
  static constexpr bool agree() {
    if constexpr (sizeof...(P1) == sizeof...(P2)) {
      return is_same_kind<R1, R2>() && (is_same_kind<P1, P2>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool kAgree = agree();
};

}  // namespace graphsafe_gg::agreement

#define CHECK_FUNCTION(member, symbol)                                                          \
  static_assert(graphsafe_gg::agreement::Functions<decltype(graphsafe_gg::CublasLtApi::member), \
                                                   decltype(symbol)>::kAgree,                   \
                "CublasLtApi::" #member " differs from " #symbol)

#define CHECK_CONSTANT(ours, theirs)                                                              \
  static_assert(static_cast<long long>(graphsafe_gg::lt::ours) == static_cast<long long>(theirs), \
                "lt::" #ours " differs from " #theirs)

#define CHECK_SIZE(ours, theirs)                                  \
  static_assert(sizeof(graphsafe_gg::lt::ours) == sizeof(theirs), \
                "lt::" #ours " and " #theirs " differ in size")

#define CHECK_OFFSET(type, ours, theirs)                                                     \
  static_assert(offsetof(graphsafe_gg::lt::HeuristicResult, ours) == offsetof(type, theirs), \
                #ours " lies elsewhere than " #theirs)
