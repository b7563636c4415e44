// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Stands in for the embedded fatbins where nvcc built none: one byte for each library, which the
// simulated driver accepts. Linked into the test-only extension before the core library's own.
#include "kernels/kernel_blobs.h"

namespace graphsafe_gg {
namespace {

constexpr unsigned char kByte[] = {0};

}  // namespace

const std::vector<KernelBlob>& kernel_blobs() {
  static const std::vector<KernelBlob> blobs = {
#define GG_LIBRARY(name) {name, kByte, kByte + 1},
      GG_SIMULATED_LIBRARIES
#undef GG_LIBRARY
  };
  return blobs;
}

const char* kernel_toolkit() { return "simulated"; }

}  // namespace graphsafe_gg
