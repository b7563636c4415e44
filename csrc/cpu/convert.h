// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// float32 <-> the 16-bit operand types, round to nearest even. Free of branches, so that loops
// over them become vector code.
#pragma once

#include <cstdint>
#include <cstring>

namespace graphsafe_gg::cpu {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct BFloat16 {
  uint16_t bits;
};

struct Float16 {
  uint16_t bits;
};

inline float to_float(float in) { return in; }

inline float to_float(BFloat16 in) { return float_of(static_cast<uint32_t>(in.bits) << 16); }

// Half subnormals are built from normal floats: XLA's CPU threads read float subnormals as zero.
inline float to_float(Float16 in) {
  const uint32_t sign = static_cast<uint32_t>(in.bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(in.bits & 0x7fffu) << 13;
  const uint32_t normal = magnitude + 0x38000000u;
  const uint32_t subnormal = bits_of(float_of(magnitude | 0x38800000u) - 0x1p-14f);
  const uint32_t special = 0x7f800000u | magnitude;
  const uint32_t exponent = in.bits & 0x7c00u;
  const uint32_t finite = exponent == 0 ? subnormal : normal;
  return float_of(sign | (exponent == 0x7c00u ? special : finite));
}

inline void from_float(float in, float& out) { out = in; }

inline void from_float(float in, BFloat16& out) {
  const uint32_t bits = bits_of(in);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x0040u;
  out.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

inline void from_float(float in, Float16& out) {
  const uint32_t sign = (bits_of(in) >> 16) & 0x8000u;
  const uint32_t magnitude = bits_of(in) & 0x7fffffffu;
  // Adding 0.5 leaves the half subnormal in the low mantissa bits, rounded to nearest even.
  const uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  out.bits = static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? special : finite));
}

}  // namespace graphsafe_gg::cpu
