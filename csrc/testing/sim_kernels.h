// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// CPU emulations of kernels, found by symbol. A kernel sees device memory through KernelRun alone:
// a pointer outside live memory is an illegal address, as on a GPU.
#pragma once

#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "testing/sim_memory.h"

namespace graphsafe_gg::sim {

class IllegalAddress : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Params = std::vector<std::vector<std::byte>>;             // values, copied at the launch
using DeviceWords = std::unordered_map<std::string, uint64_t>;  // __device__ variables

class KernelRun {
 public:
  KernelRun(const std::string& symbol, const Params& params, int ordinal, const Memory& memory,
            DeviceWords& words)
      : symbol_(symbol), params_(params), ordinal_(ordinal), memory_(memory), words_(words) {}

  const std::string& symbol() const { return symbol_; }

  template <typename T>
  T param(size_t index) const {
    T value;
    std::memcpy(&value, params_.at(index).data(), sizeof(T));
    return value;
  }

  template <typename T = void>
  T* view(const void* address, int64_t size_bytes) const {
    return reinterpret_cast<T*>(bytes_at(address, size_bytes));
  }

  // Zero at first, one for each device.
  uint64_t& device_word(const std::string& name) { return words_[name]; }

 private:
  std::byte* bytes_at(const void* address, int64_t size_bytes) const;

  const std::string& symbol_;
  const Params& params_;
  const int ordinal_;
  const Memory& memory_;
  DeviceWords& words_;
};

struct Emulation {
  std::vector<size_t> param_bytes;
  std::function<void(KernelRun&)> run;
  // Steps of simulated time a launch takes; null: one.
  std::function<int64_t(const Params&)> num_steps;
};

// Null when nothing emulates the symbol. Emulations live until the process ends.
const Emulation* find_emulation(const std::string& symbol);

// Replaces an earlier one of that symbol for launches to come.
void register_emulation(const std::string& symbol, Emulation emulation);

}  // namespace graphsafe_gg::sim
