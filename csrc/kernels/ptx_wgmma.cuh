// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// "wgmma.mma_async": the products of a warpgroup on sm_90a, 64 by 16 or a multiple of 32.
#pragma once

#include <cstdint>

#include "kernels/ptx.cuh"

namespace graphsafe_gg::ptx {

#define GG_D4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define GG_D8(i) GG_D4(i), GG_D4(i + 1)
#define GG_D16(i) GG_D4(i), GG_D4(i + 1), GG_D4(i + 2), GG_D4(i + 3)
#define GG_D32 GG_D16(0), GG_D16(4)
#define GG_D48 GG_D32, GG_D16(8)
#define GG_D64 GG_D32, GG_D16(8), GG_D16(12)
#define GG_D80 GG_D64, GG_D16(16)
#define GG_D96 GG_D64, GG_D16(16), GG_D16(20)
#define GG_D112 GG_D96, GG_D16(24)
#define GG_D128 GG_D96, GG_D16(24), GG_D16(28)
#define GG_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define GG_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define GG_NAMES_32 \
  GG_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GG_NAMES_48 \
  GG_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define GG_NAMES_64 \
  GG_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define GG_NAMES_80 \
  GG_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define GG_NAMES_96 \
  GG_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GG_NAMES_112                                                                         \
  GG_NAMES_96                                                                                \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
  "%111"
#define GG_NAMES_128                                                                       \
  GG_NAMES_112                                                                             \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
  "%126, %127"

// "wgmma.mma_async" m64nNk16: d += a @ b, or d = a @ b if not `adds`; both in shared memory, a as
// (m, k) or, if kAIsKRows, (k, m), b as (k, n) if kBIsKRows, else (n, k).
template <typename T, bool kAIsKRows, bool kBIsKRows>
struct Wgmma;

#define GG_WGMMA_N(name, cols, d_list, d_names, a_name, b_name, adds_name, a_rows, b_rows)         \
  __device__ __forceinline__ static void multiply(float (&d)[cols / 8][4], uint64_t a, uint64_t b, \
                                                  int adds) {                                      \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds_name                               \
                 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #cols "k16.f32." name "." name          \
                 " {" d_names "}, " a_name ", " b_name ", adds, 1, 1, " a_rows ", " b_rows ";\n}"  \
                 : d_list                                                                          \
                 : "l"(a), "l"(b), "r"(adds), "n"(kAIsKRows ? 1 : 0), "n"(kBIsKRows ? 1 : 0));     \
  }

#define GG_WGMMA(type, name)                                                             \
  template <bool kAIsKRows, bool kBIsKRows>                                              \
  struct Wgmma<type, kAIsKRows, kBIsKRows> {                                             \
    GG_WGMMA_N(name, 16, GG_D8(0), GG_NAMES_8, "%8", "%9", "%10", "%11", "%12")          \
    GG_WGMMA_N(name, 32, GG_D16(0), GG_NAMES_16, "%16", "%17", "%18", "%19", "%20")      \
    GG_WGMMA_N(name, 64, GG_D32, GG_NAMES_32, "%32", "%33", "%34", "%35", "%36")         \
    GG_WGMMA_N(name, 96, GG_D48, GG_NAMES_48, "%48", "%49", "%50", "%51", "%52")         \
    GG_WGMMA_N(name, 128, GG_D64, GG_NAMES_64, "%64", "%65", "%66", "%67", "%68")        \
    GG_WGMMA_N(name, 160, GG_D80, GG_NAMES_80, "%80", "%81", "%82", "%83", "%84")        \
    GG_WGMMA_N(name, 192, GG_D96, GG_NAMES_96, "%96", "%97", "%98", "%99", "%100")       \
    GG_WGMMA_N(name, 224, GG_D112, GG_NAMES_112, "%112", "%113", "%114", "%115", "%116") \
    GG_WGMMA_N(name, 256, GG_D128, GG_NAMES_128, "%128", "%129", "%130", "%131", "%132") \
  };

GG_WGMMA(Bf16, "bf16")
GG_WGMMA(F16, "f16")

#undef GG_WGMMA
#undef GG_WGMMA_N
#undef GG_NAMES_128
#undef GG_NAMES_112
#undef GG_NAMES_96
#undef GG_NAMES_80
#undef GG_NAMES_64
#undef GG_NAMES_48
#undef GG_NAMES_32
#undef GG_NAMES_16
#undef GG_NAMES_8
#undef GG_D128
#undef GG_D112
#undef GG_D96
#undef GG_D80
#undef GG_D64
#undef GG_D48
#undef GG_D32
#undef GG_D16
#undef GG_D8
#undef GG_D4

}  // namespace graphsafe_gg::ptx
