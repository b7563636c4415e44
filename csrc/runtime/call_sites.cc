// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_sites.h"

#include <cstdio>
#include <mutex>
#include <unordered_map>

namespace graphsafe_gg {
namespace {

struct Table {
  std::mutex mutex;
  std::unordered_map<uint64_t, std::string> names;  // guarded by mutex
};

Table& table() {
  static auto* instance = new Table;  // leaked: handlers read it until the process ends
  return *instance;
}

}  // namespace

void name_call_site(uint64_t site, const std::string& name) {
  std::lock_guard<std::mutex> lock(table().mutex);
  table().names[site] = name;
}

std::string call_site_name(uint64_t site) {
  {
    std::lock_guard<std::mutex> lock(table().mutex);
    const auto found = table().names.find(site);
    if (found != table().names.end()) return found->second;
  }
  char text[24];
  std::snprintf(text, sizeof(text), "#%016llx", static_cast<unsigned long long>(site));
  return text;
}

}  // namespace graphsafe_gg
