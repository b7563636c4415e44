// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/errors.h"

#include <cstdio>
#include <mutex>
#include <set>

namespace graphsafe_gg {

void report_once(const std::string& message) noexcept {
  try {
    // Leaked: destructors report during process exit.
    static auto* mutex = new std::mutex;
    static auto* seen = new std::set<std::string>;
    std::lock_guard<std::mutex> lock(*mutex);
    if (seen->insert(message).second) std::fprintf(stderr, "graphsafe_gg: %s\n", message.c_str());
  } catch (...) {
    std::fputs("graphsafe_gg: an error could not be reported (out of memory)\n", stderr);
  }
}

}  // namespace graphsafe_gg
