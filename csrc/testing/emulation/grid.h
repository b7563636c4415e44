// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Launches of emulated kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_args.h"
#include "kernels/tensor_maps.h"
#include "kernels/tile_shape.h"
#include "testing/emulation/memory.h"

namespace graphsafe_gg::emulation {

// A kernel that was compiled for the host. `smem` is the block's dynamic shared memory.
struct EmulatedKernel {
  std::string symbol;
  TileShape shape;
  void (*body)(const KernelArgs& args, const TensorMaps& maps, unsigned char* smem);
};

// Of all kernels, in the order of kernel_list.h within each file.
std::vector<EmulatedKernel>& emulated_kernels();

struct Registration {
  explicit Registration(EmulatedKernel kernel);
};

struct Launch {
  const EmulatedKernel& kernel;
  const KernelArgs& args;
  const TensorMaps& maps;
  unsigned num_blocks;
  uint32_t smem_bytes;
  uint64_t seed;
};

// Throws EmulationError. One launch at a time.
void run(const Launch& launch, const Memory& memory);

}  // namespace graphsafe_gg::emulation
