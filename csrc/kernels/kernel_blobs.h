// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The fatbins embedded in this build; none when it was built without nvcc.
#pragma once

#include <vector>

namespace graphsafe_gg {

struct KernelBlob {
  const char* library;  // stem of the .cu file
  const unsigned char* begin;
  const unsigned char* end;
};

const std::vector<KernelBlob>& kernel_blobs();

// CUDA release that compiled them ("13.0"), or "none".
const char* kernel_toolkit();

}  // namespace graphsafe_gg
