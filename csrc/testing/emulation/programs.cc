// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/programs.h"

#include <numeric>
#include <stdexcept>

#include "testing/emulation/cuda.h"
//
#include "kernels/matrix_descriptor.h"
#include "kernels/ptx_sm90.cuh"
#include "kernels/ptx_wgmma.cuh"
#include "testing/emulation/grid.h"

namespace graphsafe_gg::emulation {
namespace {

constexpr int kThreads = 128;
constexpr uint32_t kSharedBytes = 4096;
constexpr uint32_t kTileBytes = 2048;  // 16 rows of 128 bytes

struct Program {
  const KernelArgs& args;
  const TensorMaps& maps;
  unsigned char* smem;

  const float* in() const { return static_cast<const float*>(args.lhs); }
  float* out() const { return static_cast<float*>(args.out); }
  uint32_t at(uint32_t offset) const { return ptx::smem_address(smem + offset); }
  uint32_t barrier() const { return at(kTileBytes); }
  bool is_first() const { return threadIdx.x == 0; }

  void init(uint32_t arrivals) const {
    if (is_first()) {
      ptx::barrier_init(barrier(), arrivals);
      ptx::fence_barrier_init();
    }
    __syncthreads();
  }

  void publish(float value) const { reinterpret_cast<float*>(smem)[threadIdx.x] = value; }
  float neighbour() const {
    return reinterpret_cast<float*>(smem)[(threadIdx.x + 32) % blockDim.x];
  }
};

void exchange(const Program& p) {
  p.publish(p.in()[threadIdx.x]);
  __syncthreads();
  p.out()[threadIdx.x] = p.neighbour();
}

void exchange_without_barrier(const Program& p) {
  p.publish(p.in()[threadIdx.x]);
  p.out()[threadIdx.x] = p.neighbour();
}

template <bool kWaits>
void copy(const Program& p) {
  ptx::cp_async_4(p.at(threadIdx.x * 4), p.in() + threadIdx.x, 4);
  ptx::cp_async_commit();
  if (kWaits) ptx::cp_async_wait<0>();
  p.out()[threadIdx.x] = reinterpret_cast<float*>(p.smem)[threadIdx.x];
}

// Operands of ones, in one group of 8 rows that all rows are: the elements are 16.
template <bool kFences, bool kWaits>
void product(const Program& p) {
  const uint32_t ones[4] = {0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80};
  for (uint32_t i = threadIdx.x * 16; i < kSharedBytes; i += blockDim.x * 16) {
    ptx::store_shared_16(p.at(i), ones);
  }
  if (kFences) ptx::fence_proxy_async();
  __syncthreads();
  float d[8][4];
  const uint64_t operand = ptx::matrix_descriptor(p.at(0), 0) & ~(0x3fffull << 32);
  ptx::wgmma_fence();
  ptx::Wgmma<ptx::Bf16, false, false>::multiply(d, operand, operand, 0);
  ptx::wgmma_commit();
  if (kWaits) ptx::wgmma_wait<0>();
  p.out()[threadIdx.x] = d[7][3];
}

void product_without_fence(const Program& p) {
  float d[8][4];
  ptx::Wgmma<ptx::Bf16, false, false>::multiply(d, 0, 0, 0);
  p.out()[threadIdx.x] = d[0][0];
}

void wait_for_nobody(const Program& p) {
  p.init(2);
  if (p.is_first()) ptx::barrier_arrive(p.barrier());
  ptx::barrier_wait(p.barrier(), 0);
}

void arrive_too_often(const Program& p) {
  p.init(1);
  ptx::barrier_arrive_expect(p.barrier(), 16);
}

void use_no_barrier(const Program& p) { ptx::barrier_arrive(p.barrier()); }

void overwrite_barrier(const Program& p) {
  p.init(blockDim.x);
  const uint32_t words[4] = {};
  if (p.is_first()) ptx::store_shared_16(p.barrier(), words);
  ptx::barrier_arrive(p.barrier());
}

void arrive_at_unfenced(const Program& p) {
  if (p.is_first()) ptx::barrier_init(p.barrier(), 2);
  ptx::cluster_sync();
  if (p.is_first()) ptx::barrier_arrive_at(p.barrier(), 1 - ptx::cluster_rank());
  ptx::cluster_sync();
}

void leave_before_the_neighbour(const Program& p) {
  if (p.is_first()) {
    ptx::barrier_init(p.barrier(), 2);
    ptx::fence_barrier_init();
  }
  ptx::cluster_sync();
  if (ptx::cluster_rank() == 0 && p.is_first()) ptx::barrier_arrive_at(p.barrier(), 1);
}

void split_warp(const Program&) {
  if (threadIdx.x % 2 == 0) {
    __syncwarp();
  } else {
    __ballot_sync(0xffffffffu, true);
  }
}

void store_past_shared_memory(const Program& p) {
  const uint32_t words[4] = {};
  ptx::store_shared_16(p.at(kSharedBytes), words);
}

void store_unaligned(const Program& p) {
  const uint32_t words[4] = {};
  ptx::store_shared_16(p.at(8), words);
}

void store_vector_unaligned(const Program& p) {
  *reinterpret_cast<float4*>(p.out() + 1) = make_float4(0, 0, 0, 0);
}

void read_past_lhs(const Program& p) {
  const volatile float* in = p.in();
  p.out()[threadIdx.x] = in[p.args.m + 4096];
}

void divide_by_zero(const Program& p) {
  p.out()[threadIdx.x] = static_cast<float>(p.args.m / p.args.k);  // k is 0
}

void write_to_lhs(const Program& p) { const_cast<float*>(p.in())[threadIdx.x] = 0; }

void write_beside_out(const Program& p) { p.out()[p.args.m] = p.out()[-1] = 0; }

void copy_by_no_map(const Program& p) {
  p.init(1);
  if (p.is_first()) ptx::copy_box(p.at(0), &p.maps.lhs, p.barrier(), 0, 0);
}

#define GG_PROGRAM(name, cluster, function)                                  \
  {name,                                                                     \
   {0, 0, 0, 0, kThreads, 1, cluster},                                       \
   [](const KernelArgs& args, const TensorMaps& maps, unsigned char* smem) { \
     function({args, maps, smem});                                           \
   }},

const EmulatedKernel kPrograms[] = {
    GG_PROGRAM("exchange", 1, exchange)                                      //
    GG_PROGRAM("exchange_without_barrier", 1, exchange_without_barrier)      //
    GG_PROGRAM("copy", 1, copy<true>)                                        //
    GG_PROGRAM("copy_without_wait", 1, copy<false>)                          //
    GG_PROGRAM("product", 1, (product<true, true>))                          //
    GG_PROGRAM("product_without_proxy_fence", 1, (product<false, true>))     //
    GG_PROGRAM("product_without_wait", 1, (product<true, false>))            //
    GG_PROGRAM("product_without_fence", 1, product_without_fence)            //
    GG_PROGRAM("wait_for_nobody", 1, wait_for_nobody)                        //
    GG_PROGRAM("arrive_too_often", 1, arrive_too_often)                      //
    GG_PROGRAM("use_no_barrier", 1, use_no_barrier)                          //
    GG_PROGRAM("overwrite_barrier", 1, overwrite_barrier)                    //
    GG_PROGRAM("arrive_at_unfenced", 2, arrive_at_unfenced)                  //
    GG_PROGRAM("leave_before_the_neighbour", 2, leave_before_the_neighbour)  //
    GG_PROGRAM("split_warp", 1, split_warp)                                  //
    GG_PROGRAM("store_past_shared_memory", 1, store_past_shared_memory)      //
    GG_PROGRAM("store_unaligned", 1, store_unaligned)                        //
    GG_PROGRAM("store_vector_unaligned", 1, store_vector_unaligned)          //
    GG_PROGRAM("read_past_lhs", 1, read_past_lhs)                            //
    GG_PROGRAM("divide_by_zero", 1, divide_by_zero)                          //
    GG_PROGRAM("write_to_lhs", 1, write_to_lhs)                              //
    GG_PROGRAM("write_beside_out", 1, write_beside_out)                      //
    GG_PROGRAM("copy_by_no_map", 1, copy_by_no_map)};

const EmulatedKernel& program_named(const std::string& name) {
  for (const EmulatedKernel& program : kPrograms) {
    if (program.symbol == name) return program;
  }
  throw std::invalid_argument("no such program: " + name);
}

}  // namespace

std::vector<float> run_program(const std::string& name, uint64_t seed) {
  const EmulatedKernel& program = program_named(name);
  Memory memory(/*is_low=*/seed % 2 == 0);
  Buffer& in = memory.add("lhs", kThreads * sizeof(float), 0);
  Buffer& out = memory.add("out", kThreads * sizeof(float), 0);
  auto* first = reinterpret_cast<float*>(in.data());
  std::iota(first, first + kThreads, 0.0f);
  in.forbid_writes();
  KernelArgs args{};
  args.lhs = in.data();
  args.out = out.data();
  args.m = kThreads;
  const auto num_blocks = static_cast<unsigned>(program.shape.cluster_size);
  run({program, args, TensorMaps{}, num_blocks, kSharedBytes, seed}, memory);
  const auto* result = reinterpret_cast<const float*>(out.data());
  return {result, result + kThreads};
}

}  // namespace graphsafe_gg::emulation
