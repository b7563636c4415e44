// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/sim_kernels.h"

#include <list>
#include <mutex>

#include "testing/emulations.h"

namespace graphsafe_gg::sim {
namespace {

struct Table {
  std::mutex mutex;
  std::list<Emulation> storage;                                 // guarded by mutex
  std::unordered_map<std::string, const Emulation*> by_symbol;  // guarded by mutex
};

Table& table() {
  static auto* instance = new Table;  // leaked: queued launches point into it
  return *instance;
}

}  // namespace

std::byte* KernelRun::bytes_at(const void* address, int64_t size_bytes) const {
  std::byte* bytes = memory_.device_view(ordinal_, reinterpret_cast<DevicePtr>(address),
                                         static_cast<size_t>(size_bytes));
  if (bytes == nullptr) {
    throw IllegalAddress(symbol_ + " touched " + std::to_string(size_bytes) +
                         " bytes outside live memory of device " + std::to_string(ordinal_));
  }
  return bytes;
}

void register_emulation(const std::string& symbol, Emulation emulation) {
  std::lock_guard<std::mutex> lock(table().mutex);
  table().storage.push_back(std::move(emulation));
  table().by_symbol[symbol] = &table().storage.back();
}

const Emulation* find_emulation(const std::string& symbol) {
  {
    std::lock_guard<std::mutex> lock(table().mutex);
    const auto found = table().by_symbol.find(symbol);
    if (found != table().by_symbol.end()) return found->second;
  }
  Emulation made = make_emulation(symbol);
  if (!made.run) return nullptr;
  std::lock_guard<std::mutex> lock(table().mutex);
  const auto found = table().by_symbol.find(symbol);
  if (found != table().by_symbol.end()) return found->second;
  table().storage.push_back(std::move(made));
  return table().by_symbol[symbol] = &table().storage.back();
}

}  // namespace graphsafe_gg::sim
