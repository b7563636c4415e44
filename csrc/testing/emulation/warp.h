// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Instructions that all lanes of a warp take part in.
#pragma once

#include <cstdint>

#include "kernels/problem.h"

namespace graphsafe_gg::emulation {

// Returns in every lane, once all of them have come to the same instruction; the last one has run
// `body` on what each has brought.
using MeetingBody = void (*)(void** payloads);
void meet(const char* what, void* payload, MeetingBody body);

void sync_warp(unsigned mask);
unsigned ballot(unsigned mask, bool predicate);
// Fails unless it names all lanes.
void check_mask(unsigned mask, const char* what);

// `lane` may name no lane; then each keeps its own.
template <typename T>
T shuffle(unsigned mask, T value, unsigned from) {
  struct Payload {
    T value;
    unsigned from;
    T result;
  };
  check_mask(mask, "shfl");
  Payload payload = {value, from, value};
  meet("shfl", &payload, [](void** payloads) {
    for (int i = 0; i < 32; ++i) {
      auto* lane = static_cast<Payload*>(payloads[i]);
      if (lane->from < 32) lane->result = static_cast<Payload*>(payloads[lane->from])->value;
    }
  });
  return payload.result;
}

uint32_t transpose_8x8(uint32_t pair);
void load_matrix_x4(uint32_t (&r)[4], uint32_t smem, bool transposes);
void mma(DType dtype, float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

}  // namespace graphsafe_gg::emulation
