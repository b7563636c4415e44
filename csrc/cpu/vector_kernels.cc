// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/vector_kernels.h"

#include <cstddef>
#include <cstring>

#include "cpu/convert.h"

// The templates below are compiled into each function that names an instruction set.
#define GG_INLINE inline __attribute__((always_inline))

namespace graphsafe_gg::cpu {
namespace {

template <size_t kBytes>
struct Vector {
  typedef float type __attribute__((vector_size(kBytes)));
};

// An instruction set: its vectors, and the largest tiles whose sums its registers hold.
template <size_t kVectorBytes, int kTileRows, int kDotRows, int kDotCols>
struct Isa {
  using Lanes = typename Vector<kVectorBytes>::type;
  static constexpr int kLanes = static_cast<int>(kVectorBytes / sizeof(float));
  static constexpr int kRows = kTileRows;
  static constexpr int kRowsOfDot = kDotRows;
  static constexpr int kColsOfDot = kDotCols;
};

template <typename T, int kSize>
using Array = T[static_cast<size_t>(kSize)];

// By reference: passing vectors that the baseline lacks by value has no ABI.
template <typename Lanes>
GG_INLINE void load(const float* in, Lanes& out) {
  std::memcpy(&out, in, sizeof(Lanes));
}

template <typename Lanes>
GG_INLINE void store(const Lanes& in, float* out) {
  std::memcpy(out, &in, sizeof(Lanes));
}

template <typename Item>
GG_INLINE void widen_items(const void* in, int64_t in_stride, int64_t rows, int64_t cols,
                           float* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const Item* from = static_cast<const Item*>(in) + r * in_stride;
    float* to = out + r * out_stride;
    for (int64_t c = 0; c < cols; ++c) to[c] = to_float(from[c]);
  }
}

template <typename Item>
GG_INLINE void narrow_items(const float* in, int64_t in_stride, int64_t rows, int64_t cols,
                            void* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = in + r * in_stride;
    Item* to = static_cast<Item*>(out) + r * out_stride;
    for (int64_t c = 0; c < cols; ++c) from_float(from[c], to[c]);
  }
}

GG_INLINE void widen(DType dtype, const void* in, int64_t in_stride, int64_t rows, int64_t cols,
                     float* out, int64_t out_stride) {
  switch (dtype) {
    case DType::kF32:
      return widen_items<float>(in, in_stride, rows, cols, out, out_stride);
    case DType::kBF16:
      return widen_items<BFloat16>(in, in_stride, rows, cols, out, out_stride);
    case DType::kF16:
      return widen_items<Float16>(in, in_stride, rows, cols, out, out_stride);
  }
}

GG_INLINE void narrow(DType dtype, const float* in, int64_t in_stride, int64_t rows, int64_t cols,
                      void* out, int64_t out_stride) {
  switch (dtype) {
    case DType::kF32:
      return narrow_items<float>(in, in_stride, rows, cols, out, out_stride);
    case DType::kBF16:
      return narrow_items<BFloat16>(in, in_stride, rows, cols, out, out_stride);
    case DType::kF16:
      return narrow_items<Float16>(in, in_stride, rows, cols, out, out_stride);
  }
}

constexpr int64_t kCacheLine = 64;

GG_INLINE void prefetch(const char* begin, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(begin + i);
}

template <typename I, int kRows>
GG_INLINE void accumulate_rows(const TileProduct& p, int64_t row, bool fetches) {
  using Lanes = typename I::Lanes;
  constexpr int kVectors = kColumnTile / I::kLanes > 2 ? 2 : kColumnTile / I::kLanes;
  constexpr int64_t kWidth = kVectors * I::kLanes;
  const float* a = p.a + row * p.a_stride;
  for (int64_t col = 0; col < p.cols; col += kWidth) {
    float* c = p.c + row * p.c_stride + col;
    const float* b = p.b + col;
    const char* next = fetches ? p.next + col * p.next_item_bytes : nullptr;
    Array<Array<Lanes, kVectors>, kRows> sum;
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        if (p.is_first) {
          sum[r][v] = Lanes{};
        } else {
          load(c + r * p.c_stride + v * I::kLanes, sum[r][v]);
        }
      }
    }
    for (int64_t d = 0; d < p.depth; ++d) {
      Array<Lanes, kVectors> weights;
      for (int v = 0; v < kVectors; ++v) load(b + d * p.b_stride + v * I::kLanes, weights[v]);
      if (fetches) prefetch(next + d * p.next_stride, kWidth * p.next_item_bytes);
      for (int r = 0; r < kRows; ++r) {
        const float x = a[r * p.a_stride + d];
        for (int v = 0; v < kVectors; ++v) sum[r][v] += x * weights[v];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) store(sum[r][v], c + r * p.c_stride + v * I::kLanes);
    }
  }
}

// Tiles of kRows, then half as many, down to one.
template <typename I, int kRows>
GG_INLINE void accumulate_from(const TileProduct& p, int64_t row) {
  for (; row + kRows <= p.rows; row += kRows) {
    accumulate_rows<I, kRows>(p, row, row == 0 && p.next != nullptr);
  }
  if constexpr (kRows > 1) accumulate_from<I, kRows / 2>(p, row);
}

// Halves are added until one lane is left.
template <typename Lanes>
GG_INLINE float sum_of(const Lanes& lanes) {
  if constexpr (sizeof(Lanes) == 16) {
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  } else {
    typename Vector<sizeof(Lanes) / 2>::type low, high;
    std::memcpy(&low, &lanes, sizeof(low));
    std::memcpy(&high, reinterpret_cast<const char*>(&lanes) + sizeof(low), sizeof(high));
    low += high;
    return sum_of(low);
  }
}

template <typename I, int kRows, int kCols>
GG_INLINE void dot_tile(const TileProduct& p, int64_t row, int64_t col) {
  using Lanes = typename I::Lanes;
  const float* a = p.a + row * p.a_stride;
  const float* b = p.b + col * p.b_stride;
  const bool fetches = row == 0 && p.next != nullptr;
  const char* next = fetches ? p.next + col * p.next_stride : nullptr;
  Array<Array<Lanes, kCols>, kRows> sum = {};
  for (int64_t d = 0; d < p.depth; d += I::kLanes) {
    Array<Lanes, kCols> weights;
    for (int c = 0; c < kCols; ++c) load(b + c * p.b_stride + d, weights[c]);
    if (fetches) {
      for (int c = 0; c < kCols; ++c) {
        __builtin_prefetch(next + c * p.next_stride + d * p.next_item_bytes);
      }
    }
    for (int r = 0; r < kRows; ++r) {
      Lanes x;
      load(a + r * p.a_stride + d, x);
      for (int c = 0; c < kCols; ++c) sum[r][c] += x * weights[c];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kCols; ++c) {
      const float total = sum_of(sum[r][c]);
      float& result = p.c[(row + r) * p.c_stride + col + c];
      result = p.is_first ? total : result + total;
    }
  }
}

template <typename I, int kRows>
GG_INLINE void dot_from(const TileProduct& p, int64_t row) {
  for (; row + kRows <= p.rows; row += kRows) {
    int64_t col = 0;
    for (; col + I::kColsOfDot <= p.cols; col += I::kColsOfDot) {
      dot_tile<I, kRows, I::kColsOfDot>(p, row, col);
    }
    for (; col < p.cols; ++col) dot_tile<I, kRows, 1>(p, row, col);
  }
  if constexpr (kRows > 1) dot_from<I, kRows / 2>(p, row);
}

#define GG_VECTOR_KERNELS(name, target, isa, ...)                                          \
  target void widen_##name(DType dtype, const void* in, int64_t in_stride, int64_t rows,   \
                           int64_t cols, float* out, int64_t out_stride) {                 \
    widen(dtype, in, in_stride, rows, cols, out, out_stride);                              \
  }                                                                                        \
  target void narrow_##name(DType dtype, const float* in, int64_t in_stride, int64_t rows, \
                            int64_t cols, void* out, int64_t out_stride) {                 \
    narrow(dtype, in, in_stride, rows, cols, out, out_stride);                             \
  }                                                                                        \
  target void accumulate_##name(const TileProduct& product) {                              \
    accumulate_from<isa, isa::kRows>(product, 0);                                          \
  }                                                                                        \
  target void dot_##name(const TileProduct& product) {                                     \
    dot_from<isa, isa::kRowsOfDot>(product, 0);                                            \
  }                                                                                        \
  constexpr VectorKernels k_##name = {widen_##name, narrow_##name, accumulate_##name,      \
                                      dot_##name,   #name,         __VA_ARGS__};

// Bytes of a vector; rows of a tile; rows and columns of a tile of dot products.
using Baseline = Isa<16, 4, 4, 2>;
GG_VECTOR_KERNELS(baseline, , Baseline, {{4, 16}, {24, 32}})
#ifdef __x86_64__
using Avx2 = Isa<32, 4, 4, 2>;
GG_VECTOR_KERNELS(avx2, __attribute__((target("avx2,fma"))), Avx2, {{4, 16}, {24, 32}})
using Avx512 = Isa<64, 8, 4, 4>;
GG_VECTOR_KERNELS(avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),
                  Avx512, {{64, 32}, {64, 64}})
#endif

std::vector<const VectorKernels*> find_usable() {
  std::vector<const VectorKernels*> usable;
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx2 && has_avx512) usable.push_back(&k_avx512);
  if (has_avx2) usable.push_back(&k_avx2);
#endif
  usable.push_back(&k_baseline);
  return usable;
}

}  // namespace

const std::vector<const VectorKernels*>& usable_vector_kernels() {
  // Leaked: XLA's threads may still compute at exit.
  static const auto& usable = *new std::vector<const VectorKernels*>(find_usable());
  return usable;
}

const VectorKernels& vector_kernels() { return *usable_vector_kernels().front(); }

}  // namespace graphsafe_gg::cpu
