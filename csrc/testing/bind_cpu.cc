// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The CPU products in parts: each instruction set, and the sharing of blocks.
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cfenv>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cpu/streaming.h"
#include "cpu/workers.h"
#include "testing/bindings.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

const cpu::VectorKernels& kernels_named(const std::string& name) {
  for (const cpu::VectorKernels* kernels : cpu::usable_vector_kernels()) {
    if (kernels->name == name) return *kernels;
  }
  throw std::invalid_argument("no instruction set " + name);
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const cpu::VectorKernels* kernels : cpu::usable_vector_kernels()) {
    names.push_back(kernels->name);
  }
  return names;
}

DType dtype_named(const std::string& name) {
  static const std::map<std::string, DType> all = {
      {"float32", DType::kF32}, {"bfloat16", DType::kBF16}, {"float16", DType::kF16}};
  return all.at(name);
}

template <typename T>
T* pointer(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// out (rows, cols) float32, from arrays at these addresses; rhs (depth, cols) or transposed.
void multiply_streaming(const std::string& isa, const std::string& dtype, uintptr_t lhs,
                        uintptr_t rhs, bool transpose_rhs, uintptr_t bias, uintptr_t out,
                        int64_t rows, int64_t cols, int64_t depth) {
  const cpu::Block block{dtype_named(dtype),
                         DType::kF32,
                         {pointer<const char>(lhs), depth, false},
                         {pointer<const char>(rhs), transpose_rhs ? depth : cols, transpose_rhs},
                         pointer<const char>(bias),
                         pointer<char>(out),
                         cols,
                         rows,
                         cols,
                         depth};
  cpu::Scratch scratch{kernels_named(isa), {}, {}, {}, {}};
  cpu::multiply_streaming(block, scratch);
}

// Converts float32 to dtype and back, in place of `values`, through `bits`.
void narrow_and_widen(const std::string& isa, const std::string& dtype, uintptr_t values,
                      uintptr_t bits, int64_t count) {
  const cpu::VectorKernels& kernels = kernels_named(isa);
  kernels.narrow(dtype_named(dtype), pointer<float>(values), count, 1, count, pointer<void>(bits),
                 count);
  kernels.widen(dtype_named(dtype), pointer<void>(bits), count, 1, count, pointer<float>(values),
                count);
}

// A pool that starts a thread for each task, or holds every task back until it is asked.
class Pool {
 public:
  explicit Pool(int64_t num_threads) : num_threads_(num_threads) {}
  ~Pool() { join(); }

  cpu::Workers workers(bool holds_back) {
    return {num_threads_, [this, holds_back](std::function<void()> task) {
              if (holds_back) {
                held_back_.push_back(std::move(task));
              } else {
                threads_.emplace_back([task = std::move(task)] {
                  std::fesetround(FE_TONEAREST);
                  task();
                });
              }
            }};
  }

  void run_held_back() {
    for (auto& task : held_back_) task();
    held_back_.clear();
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  int64_t num_threads_;
  std::vector<std::thread> threads_;
  std::vector<std::function<void()>> held_back_;
};

// How often each block was computed.
std::vector<int64_t> share_blocks(int64_t count, int64_t num_threads, bool holds_back,
                                  int64_t failing) {
  nb::gil_scoped_release release;
  std::vector<int64_t> times(static_cast<size_t>(count), 0);
  Pool pool(num_threads);
  cpu::for_each_block(count, pool.workers(holds_back), num_threads, [&](int64_t i, cpu::Scratch&) {
    if (i == failing) throw std::bad_alloc();
    ++times[static_cast<size_t>(i)];
  });
  pool.run_held_back();
  pool.join();
  return times;
}

// The rounding modes that blocks found, called by a thread that rounds up.
std::set<int> rounding_modes_of_blocks(int64_t count, int64_t num_threads) {
  const int before = std::fegetround();
  std::set<int> found;
  std::mutex mutex;
  Pool pool(num_threads);
  std::fesetround(FE_UPWARD);
  cpu::for_each_block(count, pool.workers(false), num_threads, [&](int64_t, cpu::Scratch&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::lock_guard<std::mutex> lock(mutex);
    found.insert(std::fegetround());
  });
  std::fesetround(before);
  return found;
}

}  // namespace

void bind_cpu(nb::module_& m) {
  m.attr("ROUND_UP") = FE_UPWARD;
  m.def("cpu_instruction_sets", &instruction_sets);
  m.def("cpu_multiply_streaming", &multiply_streaming);
  m.def("cpu_narrow_and_widen", &narrow_and_widen);
  m.def("cpu_share_blocks", &share_blocks, nb::arg("count"), nb::arg("num_threads"),
        nb::arg("holds_back") = false, nb::arg("failing") = -1);
  m.def("cpu_rounding_modes_of_blocks", &rounding_modes_of_blocks);
}

}  // namespace graphsafe_gg::testing
