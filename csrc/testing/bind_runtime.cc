// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The runtime that is linked into the test-only extension: its counters and recorded errors. It is
// not the one of the package's own extension.
#include <nanobind/stl/string.h>

#include "ffi/handlers.h"
#include "runtime/call_sites.h"
#include "runtime/device_state.h"
#include "runtime/group_sizes.h"
#include "runtime/wait.h"
#include "testing/bindings.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

nb::dict site_stats(int device, uint64_t id) {
  const Site& site = DeviceState::get(device).sites().at(id);
  nb::dict entry;
  entry["executions"] = site.executions.load();
  entry["eager_calls"] = site.eager_calls.load();
  entry["captured_calls"] = site.captured_calls.load();
  entry["host_waits"] = site.waits.count.load();
  entry["host_wait_ns"] = site.waits.total_ns.load();
  entry["host_wait_max_ns"] = site.waits.largest_ns.load();
  nb::dict fallbacks;
  for (size_t reason = 1; reason < kNumFallbacks; ++reason) {
    const int64_t count = site.fallbacks[reason].load();
    if (count != 0) fallbacks[to_string(static_cast<Fallback>(reason))] = count;
  }
  entry["fallbacks"] = fallbacks;
  return entry;
}

nb::dict device_stats(int device) {
  DeviceState& state = DeviceState::get(device);
  nb::dict entry;
  entry["launches"] = state.counters().launches.load();
  entry["eager_copies"] = state.counters().eager_copies.load();
  entry["captured_copies"] = state.counters().captured_copies.load();
  entry["copies"] = state.slots().num_copies();
  entry["slots"] = state.slots().num_slots();
  entry["slot_bytes"] = state.slots().pinned_bytes();
  entry["copy_bytes"] = state.size_copies().pinned_bytes();
  nb::list sites;
  for (const Site* site : state.sites().all()) sites.append(site->id);
  entry["sites"] = sites;
  return entry;
}

// The message of the recorded error, or none. It stays recorded.
nb::object size_error(int device, uint64_t id) {
  const auto error = DeviceState::get(device).sites().at(id).error();
  if (!error) return nb::none();
  return nb::cast(describe_size_error(*error, id));
}

void set_policy(const std::string& policy) {
  set_on_bad_sizes(policy == "raise"   ? OnBadSizes::kRaise
                   : policy == "check" ? OnBadSizes::kCheck
                                       : OnBadSizes::kLog);
}

}  // namespace

void bind_runtime(nb::module_& m) {
  m.def("site_stats", &site_stats, nb::arg("device"), nb::arg("site"));
  m.def("device_stats", &device_stats, nb::arg("device"));
  m.def("size_error", &size_error, nb::arg("device"), nb::arg("site"));
  m.def(
      "clear_size_error",
      [](int device, uint64_t site) { DeviceState::get(device).sites().at(site).clear_error(); },
      nb::arg("device"), nb::arg("site"));
  m.def("set_on_bad_sizes", &set_policy, nb::arg("policy"));
  // What a first call meets on a machine without a simulation.
  m.def("open_real_driver", [] {
    set_cuda_api_for_testing(nullptr);
    cuda_api();
  });
  m.def("set_wait_deadline", &set_wait_deadline, nb::arg("seconds"));
  m.def("set_wait_warning", &set_wait_warning_for_testing, nb::arg("seconds"));
  m.def("name_call_site", &name_call_site, nb::arg("site"), nb::arg("name"));
}

}  // namespace graphsafe_gg::testing
