// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "cpu/convert.h"

#include <cstring>

namespace graphsafe_gg::cpu {
namespace {

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float bf16_to_float(uint16_t in) { return float_of(static_cast<uint32_t>(in) << 16); }

uint16_t float_to_bf16(float in) {
  const uint32_t bits = bits_of(in);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

// Half subnormals are built from normal floats: XLA's CPU threads read float subnormals as zero.
float f16_to_float(uint16_t in) {
  const uint32_t sign = static_cast<uint32_t>(in & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(in & 0x7fffu) << 13;
  const uint32_t normal = magnitude + 0x38000000u;
  const uint32_t subnormal = bits_of(float_of(magnitude | 0x38800000u) - 0x1p-14f);
  const uint32_t special = 0x7f800000u | magnitude;
  const uint32_t exponent = in & 0x7c00u;
  const uint32_t finite = exponent == 0 ? subnormal : normal;
  return float_of(sign | (exponent == 0x7c00u ? special : finite));
}

uint16_t float_to_f16(float in) {
  const uint32_t bits = bits_of(in);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Adding 0.5 leaves the half subnormal in the low mantissa bits, rounded to nearest even.
    const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    return static_cast<uint16_t>(sign | subnormal);
  }
  const uint32_t rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace

void to_float(DType dtype, const void* in, int64_t count, float* out) {
  const auto* half = static_cast<const uint16_t*>(in);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
      break;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) out[i] = bf16_to_float(half[i]);
      break;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = f16_to_float(half[i]);
      break;
  }
}

void from_float(DType dtype, const float* in, int64_t count, void* out) {
  auto* half = static_cast<uint16_t*>(out);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
      break;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) half[i] = float_to_bf16(in[i]);
      break;
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) half[i] = float_to_f16(in[i]);
      break;
  }
}

}  // namespace graphsafe_gg::cpu
