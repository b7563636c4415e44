// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The Python module: registrations, build information and the runtime's counters. No array
// crosses it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "cpu/blas.h"
#include "ffi/handlers.h"
#include "ffi/registrations.h"
#include "kernels/kernel_blobs.h"
#include "raw.h"
#include "runtime/call_sites.h"
#include "runtime/context_guard.h"
#include "runtime/device_state.h"
#include "runtime/group_sizes.h"
#include "runtime/host_launch.h"
#include "runtime/nvtx.h"
#include "runtime/wait.h"

namespace nb = nanobind;

namespace graphsafe_gg {
namespace {

// {(target, platform): {stage: capsule}}
nb::dict registration_dict() {
  nb::dict table;
  for (const Registration& entry : registrations()) {
    const nb::tuple key = nb::make_tuple(entry.target, entry.platform);
    if (!table.contains(key)) table[key] = nb::dict();
    nb::cast<nb::dict>(table[key])[entry.stage] =
        nb::capsule(reinterpret_cast<void*>(entry.handler));
  }
  return table;
}

nb::dict build_info() {
  nb::dict info;
  info["version"] = GG_VERSION;
  info["cuda_toolkit"] = kernel_toolkit();
  info["xla_ffi"] = std::to_string(XLA_FFI_API_MAJOR) + "." + std::to_string(XLA_FFI_API_MINOR);
  return info;
}

nb::dict site_stats(const Site& site) {
  nb::dict entry;
  entry["executions"] = site.executions.load();
  entry["eager_calls"] = site.eager_calls.load();
  entry["captured_calls"] = site.captured_calls.load();
  entry["host_waits"] = site.waits.count.load();
  entry["host_wait_us"] = static_cast<double>(site.waits.total_ns.load()) * 1e-3;
  entry["host_wait_max_us"] = static_cast<double>(site.waits.largest_ns.load()) * 1e-3;
  nb::dict fallbacks;
  for (size_t reason = 1; reason < kNumFallbacks; ++reason) {
    const int64_t count = site.fallbacks[reason].load();
    if (count != 0) fallbacks[to_string(static_cast<Fallback>(reason))] = count;
  }
  entry["fallbacks"] = fallbacks;
  nb::dict paths;
  for (size_t path = 0; path < kNumHostPaths; ++path) {
    const int64_t count = site.host_paths[path].load();
    if (count != 0) paths[to_string(static_cast<HostPath>(path))] = count;
  }
  entry["host_size_launches"] = paths;
  entry["guards_tripped"] = site.num_guard_trips();
  return entry;
}

// {ordinal: {..., "sites": {name: {...}}}}
nb::dict stats() {
  nb::dict devices;
  for (DeviceState* device : DeviceState::all()) {
    const DeviceCounters& counters = device->counters();
    int64_t host_waits = 0;
    int64_t host_wait_ns = 0;
    nb::dict sites;
    for (const Site* site : device->sites().all()) {
      host_waits += site->waits.count.load();
      host_wait_ns += site->waits.total_ns.load();
      sites[call_site_name(site->id).c_str()] = site_stats(*site);
    }
    nb::dict entry;
    entry["launches"] = counters.launches.load();
    entry["eager_copies"] = counters.eager_copies.load();
    entry["captured_copies"] = counters.captured_copies.load();
    entry["copies"] = device->slots().num_copies();
    entry["host_waits"] = host_waits;
    entry["host_wait_us"] = static_cast<double>(host_wait_ns) * 1e-3;
    entry["slots"] = device->slots().num_slots();
    entry["pinned_bytes"] = device->size_copies().pinned_bytes() + device->slots().pinned_bytes() +
                            device->sites().pinned_bytes();
    entry["cublaslt"] = device->cublaslt().state();
    entry["sites"] = sites;
    devices[nb::int_(device->ordinal())] = entry;
  }
  return devices;
}

// Messages of the errors that kernels recorded, cleared as they are read. With `site`, that call
// site's alone and without waiting; else every site's, after the devices have finished.
nb::list take_size_errors(std::optional<uint64_t> wanted) {
  nb::list messages;
  for (DeviceState* device : DeviceState::all()) {
    if (!wanted) {
      nb::gil_scoped_release release;
      const ContextGuard guard(cuda_api(), device->context(), device->ordinal());
      check(cuda_api().ctx_synchronize(), "cuCtxSynchronize", device->ordinal());
    }
    for (Site* site : device->sites().all()) {
      if (wanted && site->id != *wanted) continue;
      const auto error = site->error();
      if (!error) continue;
      site->clear_error();
      messages.append("device " + std::to_string(device->ordinal()) + ": " +
                      describe_size_error(*error, site->id));
    }
  }
  return messages;
}

void set_on_bad_sizes_by_name(const std::string& policy) {
  if (policy == "log") return set_on_bad_sizes(OnBadSizes::kLog);
  if (policy == "raise") return set_on_bad_sizes(OnBadSizes::kRaise);
  if (policy == "check") return set_on_bad_sizes(OnBadSizes::kCheck);
  throw nb::value_error(("policy must be log, raise or check; got " + policy).c_str());
}

void set_cublaslt_use_by_name(const std::string& use) {
  if (use == "auto") return set_cublaslt_use(CublasLtUse::kAuto);
  if (use == "off") return set_cublaslt_use(CublasLtUse::kOff);
  if (use == "always") return set_cublaslt_use(CublasLtUse::kAlways);
  throw nb::value_error(("use must be auto, off or always; got " + use).c_str());
}

}  // namespace
}  // namespace graphsafe_gg

NB_MODULE(_ext, m) {
  using namespace graphsafe_gg;
  m.def("registrations", &registration_dict);
  m.def("build_info", &build_info);
  m.def("stats", &stats);
  m.def("take_size_errors", &take_size_errors, nb::arg("site").none());
  m.def("set_on_bad_sizes", &set_on_bad_sizes_by_name, nb::arg("policy"));
  m.def("set_wait_deadline", &set_wait_deadline, nb::arg("seconds"));
  m.def("set_cublaslt_directories", &set_cublaslt_directories, nb::arg("directories"));
  m.def("set_cublaslt_use", &set_cublaslt_use_by_name, nb::arg("use"));
  m.def("enable_nvtx", &enable_nvtx, nb::arg("directories"));
  m.def("name_call_site", &name_call_site, nb::arg("site"), nb::arg("name"));
  m.def(
      "set_sgemm",
      [](nb::capsule sgemm) { cpu::set_sgemm(reinterpret_cast<cpu::Sgemm*>(sgemm.data())); },
      nb::arg("sgemm"));
  bind_raw(m);
}
