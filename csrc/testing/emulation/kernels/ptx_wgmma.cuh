// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The functions of csrc/kernels/ptx_wgmma.cuh, emulated.
#pragma once

#include <cstdint>

#include "kernels/ptx.cuh"
#include "testing/emulation/wgmma.h"

namespace graphsafe_gg::ptx {

template <typename T, bool kAIsKRows, bool kBIsKRows>
struct Wgmma {
  template <int kFrags>
  static void multiply(float (&d)[kFrags][4], uint64_t a, uint64_t b, int adds) {
    static_assert(kFrags == 2 || (kFrags % 4 == 0 && kFrags <= 32),
                  "n of csrc/kernels/ptx_wgmma.cuh");
    emulation::wgmma_multiply({kDTypeOf<T>, kFrags * 8, kAIsKRows, kBIsKRows}, {a, b, adds != 0},
                              &d[0][0]);
  }
};

}  // namespace graphsafe_gg::ptx
