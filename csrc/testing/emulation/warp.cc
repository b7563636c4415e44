// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/warp.h"

#include <cstring>
#include <string>

#include "cpu/vector_kernels.h"
#include "testing/emulation/cluster.h"

namespace graphsafe_gg::emulation {
namespace {

constexpr int kMatrixRows = 8;
constexpr int kMatrices = 4;
constexpr int kMmaRows = 16;
constexpr int kMmaCols = 8;
constexpr int kMmaDepth = 16;

struct MatrixPayload {
  Block* block;
  uint32_t smem;
  bool transposes;
  uint32_t* r;
};

// "Matrix load": lane l gets elements 2 * (l % 4) and the next one of row l / 4 of each matrix,
// or, transposed, of column l / 4.
void load_matrices(void** payloads) {
  for (int matrix = 0; matrix < kMatrices; ++matrix) {
    uint16_t elements[kMatrixRows][8];
    for (int row = 0; row < kMatrixRows; ++row) {
      const auto* lane = static_cast<MatrixPayload*>(payloads[matrix * kMatrixRows + row]);
      std::memcpy(elements[row], lane->block->at(lane->smem, 16, 16, "ldmatrix"), 16);
    }
    for (int i = 0; i < kLanes; ++i) {
      const auto* lane = static_cast<MatrixPayload*>(payloads[i]);
      const int major = i / 4;
      const int minor = i % 4 * 2;
      const uint32_t low = lane->transposes ? elements[minor][major] : elements[major][minor];
      const uint32_t high =
          lane->transposes ? elements[minor + 1][major] : elements[major][minor + 1];
      lane->r[matrix] = high << 16 | low;
    }
  }
}

struct TransposePayload {
  uint32_t pair;
  uint32_t result;
};

// "movmatrix": lane l brings elements 2 * (l % 4) and the next one of row l / 4, and gets those of
// column l / 4.
void transpose(void** payloads) {
  const auto element = [payloads](int row, int col) {
    const uint32_t pair = static_cast<TransposePayload*>(payloads[row * 4 + col / 2])->pair;
    return pair >> (col % 2 * 16) & 0xffffu;
  };
  for (int i = 0; i < kLanes; ++i) {
    auto* lane = static_cast<TransposePayload*>(payloads[i]);
    lane->result = element(i % 4 * 2 + 1, i / 4) << 16 | element(i % 4 * 2, i / 4);
  }
}

struct MmaPayload {
  DType dtype;
  float* acc;
  const uint32_t* a;
  uint32_t b[2];
};

void put_pair(uint16_t* to, uint32_t packed) { std::memcpy(to, &packed, sizeof(packed)); }

// "Matrix fragments for mma.m16n8k16"
void multiply(void** payloads) {
  uint16_t a_bits[kMmaRows][kMmaDepth];
  uint16_t b_bits[kMmaCols][kMmaDepth];
  for (int i = 0; i < kLanes; ++i) {
    const auto* lane = static_cast<MmaPayload*>(payloads[i]);
    const int group = i / 4;
    const int pair = i % 4 * 2;
    for (int j = 0; j < 4; ++j) put_pair(&a_bits[group + j % 2 * 8][pair + j / 2 * 8], lane->a[j]);
    for (int j = 0; j < 2; ++j) put_pair(&b_bits[group][pair + j * 8], lane->b[j]);
  }
  const DType dtype = static_cast<MmaPayload*>(payloads[0])->dtype;
  float a[kMmaRows][kMmaDepth];
  float b[kMmaCols][kMmaDepth];
  cpu::to_float(dtype, a_bits, kMmaRows * kMmaDepth, a[0]);
  cpu::to_float(dtype, b_bits, kMmaCols * kMmaDepth, b[0]);
  for (int i = 0; i < kLanes; ++i) {
    auto* lane = static_cast<MmaPayload*>(payloads[i]);
    for (int e = 0; e < 4; ++e) {
      const float* row = a[i / 4 + e / 2 * 8];
      const float* col = b[i % 4 * 2 + e % 2];
      float sum = lane->acc[e];
      for (int k = 0; k < kMmaDepth; ++k) sum += row[k] * col[k];
      lane->acc[e] = sum;
    }
  }
}

struct BallotPayload {
  bool predicate;
  unsigned result;
};

}  // namespace

void meet(const char* what, void* payload, MeetingBody body) {
  Thread& thread = self();
  Meeting& meeting = thread.warp->meeting;
  if (meeting.arrived != 0 && meeting.what != what && std::strcmp(meeting.what, what) != 0) {
    scheduler().fail(std::string("lanes of a warp are at ") + meeting.what + " and at " + what);
  }
  meeting.what = what;
  meeting.payloads[thread.lane()] = payload;
  if (++meeting.arrived != kLanes) {
    scheduler().wait_in(meeting.waiters, {what});
    return;
  }
  meeting.arrived = 0;
  body(meeting.payloads.data());
  scheduler().wake_all(meeting.waiters);
}

void check_mask(unsigned mask, const char* what) {
  if (mask != 0xffffffffu) scheduler().fail(std::string(what) + " of some lanes is not emulated");
}

void sync_warp(unsigned mask) {
  check_mask(mask, "bar.warp.sync");
  meet("bar.warp.sync", nullptr, [](void**) {});
  scheduler().pause();
}

unsigned ballot(unsigned mask, bool predicate) {
  check_mask(mask, "vote");
  BallotPayload payload = {predicate, 0};
  meet("vote", &payload, [](void** payloads) {
    unsigned bits = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
      if (static_cast<BallotPayload*>(payloads[i])->predicate) bits |= 1u << i;
    }
    for (int i = 0; i < kLanes; ++i) static_cast<BallotPayload*>(payloads[i])->result = bits;
  });
  return payload.result;
}

uint32_t transpose_8x8(uint32_t pair) {
  TransposePayload payload = {pair, 0};
  meet("movmatrix", &payload, transpose);
  return payload.result;
}

void load_matrix_x4(uint32_t (&r)[4], uint32_t smem, bool transposes) {
  MatrixPayload payload = {self().block, smem, transposes, r};
  meet("ldmatrix", &payload, load_matrices);
}

void mma(DType dtype, float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  MmaPayload payload = {dtype, acc, a, {b0, b1}};
  meet("mma", &payload, multiply);
}

}  // namespace graphsafe_gg::emulation
