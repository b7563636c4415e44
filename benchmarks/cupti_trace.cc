// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Records what the GPU and the driver did between two calls, through CUPTI's activity interface,
// as one CSV line each: kind,name,start_ns,end_ns. Built on the GPU machine by cupti_trace.py.
#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Row {
  const char* kind;
  std::string name;
  uint64_t start_ns;
  uint64_t end_ns;
};

std::mutex g_mutex;
std::vector<Row> g_rows;  // guarded by g_mutex

constexpr size_t kBufferBytes = size_t{8} << 20;

void CUPTIAPI request_buffer(uint8_t** buffer, size_t* size_bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size_bytes = kBufferBytes;
  *max_records = 0;
}

const char* memcpy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "DtoD";
    default:
      return "other";
  }
}

void add_api(const CUpti_Activity* record, CUpti_CallbackDomain domain) {
  const auto* api = reinterpret_cast<const CUpti_ActivityAPI*>(record);
  const char* name = nullptr;
  if (cuptiGetCallbackName(domain, api->cbid, &name) != CUPTI_SUCCESS) name = "unknown";
  g_rows.push_back(
      {domain == CUPTI_CB_DOMAIN_DRIVER_API ? "driver" : "runtime", name, api->start, api->end});
}

void add(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
      g_rows.push_back({"kernel", kernel->name, kernel->start, kernel->end});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* copy = reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
      g_rows.push_back({"memcpy", memcpy_name(copy->copyKind), copy->start, copy->end});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* set = reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      g_rows.push_back({"memset", "memset", set->start, set->end});
      break;
    }
    case CUPTI_ACTIVITY_KIND_DRIVER:
      add_api(record, CUPTI_CB_DOMAIN_DRIVER_API);
      break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      add_api(record, CUPTI_CB_DOMAIN_RUNTIME_API);
      break;
    default:
      break;
  }
}

void CUPTIAPI complete_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  std::lock_guard<std::mutex> lock(g_mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) add(record);
  std::free(buffer);
}

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME};

}  // namespace

// 0, or CUPTI's error code.
extern "C" int gg_trace_start() {
  CUptiResult status = cuptiActivityRegisterCallbacks(request_buffer, complete_buffer);
  if (status != CUPTI_SUCCESS) return static_cast<int>(status);
  {
    std::lock_guard<std::mutex> lock(g_mutex);
    g_rows.clear();
  }
  for (const CUpti_ActivityKind kind : kKinds) {
    status = cuptiActivityEnable(kind);
    if (status != CUPTI_SUCCESS) return static_cast<int>(status);
  }
  return 0;
}

// Writes the rows in the order in which CUPTI delivered them. The caller has synchronised.
extern "C" int gg_trace_stop(const char* path) {
  CUptiResult status = cuptiActivityFlushAll(1);
  for (const CUpti_ActivityKind kind : kKinds) {
    const CUptiResult disabled = cuptiActivityDisable(kind);
    if (status == CUPTI_SUCCESS) status = disabled;
  }
  if (status != CUPTI_SUCCESS) return static_cast<int>(status);
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return -1;
  std::lock_guard<std::mutex> lock(g_mutex);
  for (const Row& row : g_rows) {
    std::fprintf(file, "%s,%s,%llu,%llu\n", row.kind, row.name.c_str(),
                 static_cast<unsigned long long>(row.start_ns),
                 static_cast<unsigned long long>(row.end_ns));
  }
  std::fclose(file);
  return 0;
}
