// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What a measurement needs on the GPU besides the kernels under test: random operands, the plain
// read that is the limit, and the check of a result. Compiled by NVRTC: no header is included.

using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int64 = long long;

struct BF16 {
  uint16 bits;
};
struct F16 {
  uint16 bits;
};
struct F32 {
  float value;
};

__device__ float widen(BF16 x) { return __uint_as_float(static_cast<uint32>(x.bits) << 16); }
__device__ float widen(F32 x) { return x.value; }
__device__ float widen(F16 x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}

__device__ void narrow(float value, F32* out) { out->value = value; }
__device__ void narrow(float value, F16* out) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out->bits) : "f"(value));
}
// Round to nearest even. The values are finite.
__device__ void narrow(float value, BF16* out) {
  const uint32 bits = __float_as_uint(value);
  out->bits = static_cast<uint16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// A bijection of 64 bits whose output passes as random (Stafford's thirteenth mixer).
__device__ uint64 mix(uint64 x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Standard normal values, two an iteration (Box and Muller).
template <typename T>
__device__ void fill_normal(T* out, int64 count, uint64 seed) {
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
  const int64 num_pairs = (count + 1) / 2;
  for (int64 pair = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; pair < num_pairs;
       pair += stride) {
    const uint64 bits = mix(mix(seed) + static_cast<uint64>(pair) * 0x9e3779b97f4a7c15ull);
    const float u = (static_cast<float>(static_cast<uint32>(bits >> 40)) + 0.5f) * 0x1p-24f;
    const float v = static_cast<float>(static_cast<uint32>(bits) >> 8) * 0x1p-24f;
    const float radius = sqrtf(fmaxf(-2.0f * logf(u), 0.0f));
    float sine, cosine;
    __sincosf(6.28318531f * v, &sine, &cosine);
    narrow(radius * cosine, out + 2 * pair);
    if (2 * pair + 1 < count) narrow(radius * sine, out + 2 * pair + 1);
  }
}

__device__ int4 load_once(const int4* address) {
  int4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.s32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

__device__ int fold(int4 v) { return v.x ^ v.y ^ v.z ^ v.w; }

// Reads `count` vectors of 16 bytes. The store keeps the loads alive and practically never runs.
template <int kUnroll>
__device__ void stream_read(const int4* in, int64 count, int* out) {
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
  int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x;
  int acc = 0;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    int4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) v[u] = load_once(in + i + u * stride);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) acc ^= fold(v[u]);
  }
  for (; i < count; i += stride) acc ^= fold(load_once(in + i));
  if (acc == 0x12345678) *out = acc;
}

// One checked row of a result: out[c] should be the sum over j < count of
// a[a_start + j * a_stride] * b[b_start + j * b_row_stride + c * b_column_stride].
struct CheckedRow {
  int64 a_start;
  int64 b_start;
  int64 out_start;
  int64 count;
};
struct CheckSums {
  double error;      // sum of (out - truth)^2
  double magnitude;  // sum of truth^2
  uint64 nonfinite;
};

template <typename T, typename Out>
__device__ void check_rows(const T* a, const T* b, const Out* out, const CheckedRow* rows,
                           CheckSums* sums, int64 num_columns, int64 a_stride, int64 b_row_stride,
                           int64 b_column_stride) {
  const CheckedRow row = rows[blockIdx.x];
  const int64 column = static_cast<int64>(blockIdx.y) * blockDim.x + threadIdx.x;
  double truth = 0.0;
  double found = 0.0;
  if (column < num_columns) {
    const T* a_at = a + row.a_start;
    const T* b_at = b + row.b_start + column * b_column_stride;
    for (int64 j = 0; j < row.count; ++j) {
      truth += static_cast<double>(widen(a_at[j * a_stride])) *
               static_cast<double>(widen(b_at[j * b_row_stride]));
    }
    found = static_cast<double>(widen(out[row.out_start + column]));
  }
  double error = (found - truth) * (found - truth);
  double magnitude = truth * truth;
  const bool is_bad = !isfinite(found);
  if (is_bad) error = 0.0;
  for (int lane = 16; lane > 0; lane /= 2) {
    error += __shfl_xor_sync(0xffffffffu, error, lane);
    magnitude += __shfl_xor_sync(0xffffffffu, magnitude, lane);
  }
  const uint32 bad = __popc(__ballot_sync(0xffffffffu, is_bad));
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums->error, error);
    atomicAdd(&sums->magnitude, magnitude);
    if (bad != 0) atomicAdd(&sums->nonfinite, static_cast<uint64>(bad));
  }
}

template <typename T>
__device__ void count_nonfinite(const T* in, int64 count, CheckSums* sums) {
  const int64 stride = static_cast<int64>(gridDim.x) * blockDim.x;
  uint64 bad = 0;
  for (int64 i = static_cast<int64>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    bad += !isfinite(widen(in[i]));
  }
  if (bad != 0) atomicAdd(&sums->nonfinite, bad);
}

#define GG_OF_TYPE(name, T)                                                                      \
  extern "C" __global__ void fill_normal_##name(T* out, int64 count, uint64 seed) {              \
    fill_normal(out, count, seed);                                                               \
  }                                                                                              \
  extern "C" __global__ void count_nonfinite_##name(const T* in, int64 count, CheckSums* sums) { \
    count_nonfinite(in, count, sums);                                                            \
  }
GG_OF_TYPE(bfloat16, BF16)
GG_OF_TYPE(float16, F16)
GG_OF_TYPE(float32, F32)

#define GG_CHECK(name, T, Out)                                                               \
  extern "C" __global__ void check_rows_##name(                                              \
      const T* a, const T* b, const Out* out, const CheckedRow* rows, CheckSums* sums,       \
      int64 num_columns, int64 a_stride, int64 b_row_stride, int64 b_column_stride) {        \
    check_rows(a, b, out, rows, sums, num_columns, a_stride, b_row_stride, b_column_stride); \
  }
GG_CHECK(bfloat16, BF16, BF16)
GG_CHECK(float16, F16, F16)
GG_CHECK(float32, F32, F32)

#define GG_READ(unroll)                                                                    \
  extern "C" __global__ void stream_read_##unroll(const int4* in, int64 count, int* out) { \
    stream_read<unroll>(in, count, out);                                                   \
  }
GG_READ(4)
GG_READ(8)
GG_READ(16)
