// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cublaslt_api.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

constexpr size_t kMinVersion = 120000;  // 12.0
const char* const kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

struct Library {
  std::mutex mutex;
  // Guarded by mutex.
  std::vector<std::string> directories;
  bool is_tried = false;
  CublasLtApi api{};
  std::string state = "not needed so far";
};

// Leaked: used until the process ends.
Library& library() {
  static auto* instance = new Library;
  return *instance;
}

std::atomic<const CublasLtApi*> g_api{nullptr};      // the library's, once it is usable
std::atomic<const CublasLtApi*> g_testing{nullptr};  // goes first

// One library a process where possible: what XLA or another package has loaded comes first.
void* open_library(const std::vector<std::string>& directories) {
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return handle;
  }
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  for (const std::string& directory : directories) {
    for (const char* name : kNames) {
      const std::string path = directory + "/" + name;
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    }
  }
  return nullptr;
}

std::string version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// Empty when the table is usable, else why not.
std::string load(Library& into) {
  void* handle = open_library(into.directories);
  if (handle == nullptr) {
    return std::string("not found: ") + kNames[0] + " and " + kNames[1] +
           " are not on the loader's path nor among Python's packages";
  }
  const char* missing = nullptr;
  const auto find = [&](const char* symbol) {
    void* address = dlsym(handle, symbol);
    if (address == nullptr && missing == nullptr) missing = symbol;
    return address;
  };
#define GG_LOAD(member, symbol, result, params) \
  into.api.member = reinterpret_cast<decltype(into.api.member)>(find(symbol));
  GG_CUBLASLT_API(GG_LOAD)
#undef GG_LOAD
  if (missing != nullptr) return std::string("not usable: the library has no ") + missing;
  const size_t version = into.api.get_version();
  if (version < kMinVersion) {
    return "not usable: must be " + version_text(kMinVersion) + " or newer; got " +
           version_text(version);
  }
  return "";
}

}  // namespace

const CublasLtApi* cublaslt_api() {
  if (const CublasLtApi* api = g_testing.load(std::memory_order_acquire)) return api;
  if (const CublasLtApi* api = g_api.load(std::memory_order_acquire)) return api;
  Library& instance = library();
  std::lock_guard<std::mutex> lock(instance.mutex);
  if (!instance.is_tried) {
    instance.is_tried = true;
    instance.state = load(instance);
    if (instance.state.empty()) {
      instance.state = version_text(instance.api.get_version());
      g_api.store(&instance.api, std::memory_order_release);
    }
  }
  return g_api.load(std::memory_order_acquire);
}

std::string cublaslt_state() {
  if (const CublasLtApi* api = g_testing.load(std::memory_order_acquire)) {
    return version_text(api->get_version());
  }
  std::lock_guard<std::mutex> lock(library().mutex);
  return library().state;
}

void set_cublaslt_directories(std::vector<std::string> directories) {
  std::lock_guard<std::mutex> lock(library().mutex);
  library().directories = std::move(directories);
}

void check(const CublasLtApi& api, lt::Status status, const char* call, int ordinal) {
  if (status == lt::kSuccess) return;
  const char* name = api.get_status_name(status);
  const std::string message = std::string(call) + " failed on device " + std::to_string(ordinal) +
                              ": " + (name != nullptr ? name : "unknown") + " (" +
                              std::to_string(status) + ")";
  if (status == lt::kAllocFailed) throw OutOfMemory(message);
  throw DriverError(message);
}

void set_cublaslt_api_for_testing(const CublasLtApi* api) {
  g_testing.store(api, std::memory_order_release);
}

}  // namespace graphsafe_gg
