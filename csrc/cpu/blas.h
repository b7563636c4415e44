// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A block with many rows: calls of BLAS, on float32 copies of 16-bit operands.
#pragma once

#include "cpu/block.h"

namespace graphsafe_gg::cpu {

// Fortran sgemm with 32-bit integers, as scipy exports it. Set once, before the first call.
using Sgemm = void(char* transa, char* transb, int* m, int* n, int* k, float* alpha, float* a,
                   int* lda, float* b, int* ldb, float* beta, float* c, int* ldc);
void set_sgemm(Sgemm* sgemm);

void multiply_blas(const Block& block, Scratch& scratch);

// While one lives, BLAS computes each call on the thread that makes it: several threads then call
// it at a time, and none of its own spins. The setting is the library's, so other calls of the same
// library feel it meanwhile; the last to go restores what the first one found, unless somebody else
// has set another number by then.
class SingleThreadedBlas {
 public:
  SingleThreadedBlas();
  ~SingleThreadedBlas();
  SingleThreadedBlas(const SingleThreadedBlas&) = delete;
  SingleThreadedBlas& operator=(const SingleThreadedBlas&) = delete;

  // False for a library whose threads this does not know: it keeps them.
  bool holds() const { return holds_; }

 private:
  bool holds_;
};

}  // namespace graphsafe_gg::cpu
