// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Stands in for the macros that define kernels.
#pragma once

#include "testing/emulation/grid.h"

#define GG_TEXT_(x) #x
#define GG_TEXT(x) GG_TEXT_(x)
#define GG_JOIN_(a, b) a##b
#define GG_JOIN(a, b) GG_JOIN_(a, b)

// `...` is what a block does with args, maps and smem.
#define GG_EMULATED(name, bm, bn, bk, stages, threads, per_sm, cluster, is_transposed, ...) \
  static void name(const graphsafe_gg::KernelArgs& args,                                    \
                   [[maybe_unused]] const graphsafe_gg::TensorMaps& maps,                   \
                   [[maybe_unused]] unsigned char* smem) {                                  \
    __VA_ARGS__;                                                                            \
  }                                                                                         \
  static const graphsafe_gg::emulation::Registration GG_JOIN(name, _registration)(          \
      {GG_TEXT(name), {bm, bn, bk, stages, threads, per_sm, cluster, is_transposed}, &name});
