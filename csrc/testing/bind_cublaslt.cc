// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Python's view of the faked cuBLASLt, and of the policy that asks for it.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "runtime/device_state.h"
#include "runtime/host_launch.h"
#include "testing/bindings.h"
#include "testing/fake_cublaslt.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {
namespace {

CublasLtUse use_named(const std::string& name) {
  if (name == "auto") return CublasLtUse::kAuto;
  if (name == "off") return CublasLtUse::kOff;
  if (name == "always") return CublasLtUse::kAlways;
  throw nb::value_error(("no such use: " + name).c_str());
}

DType dtype_of_name(const std::string& name) {
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  if (name == "float32") return DType::kF32;
  throw nb::value_error(("no such dtype: " + name).c_str());
}

std::string path_of(const std::vector<int64_t>& sizes, int64_t m, int64_t k, int64_t n,
                    const std::string& dtype, const std::string& out_dtype, bool is_drhs,
                    const std::string& use, bool static_only, bool has_bias, int64_t num_layers,
                    int64_t num_groups) {
  Problem problem{};
  problem.product = is_drhs ? Product::kKGrouped : Product::kMGrouped;
  problem.dtype = dtype_of_name(dtype);
  problem.out_dtype = dtype_of_name(out_dtype);
  problem.num_sizes = static_cast<int64_t>(sizes.size());
  problem.num_groups = num_groups < 0 ? problem.num_sizes : num_groups;
  problem.has_bias = has_bias;
  problem.num_layers = num_layers;
  problem.m = m;
  problem.k = k;
  problem.n = n;
  return to_string(static_only ? host_path(problem, use_named(use))
                               : host_path(problem, sizes, use_named(use)));
}

void install(size_t version, int64_t num_steps, int num_algorithms, int64_t refused_rows,
             size_t workspace_bytes, lt::Status first_state) {
  FakeCublasLt::install(
      {version, num_steps, num_algorithms, refused_rows, workspace_bytes, first_state});
}

// (function, stage)
nb::list calls() {
  FakeCublasLt& fake = FakeCublasLt::current();
  std::lock_guard<std::mutex> lock(fake.mutex);
  nb::list entries;
  for (const auto& [function, stage] : fake.calls) {
    entries.append(nb::make_tuple(function, sim::to_string(stage)));
  }
  return entries;
}

void fail(const std::string& function, lt::Status status, int64_t nth) {
  FakeCublasLt& fake = FakeCublasLt::current();
  std::lock_guard<std::mutex> lock(fake.mutex);
  fake.failures.push_back({function, status, nth});
}

nb::dict site_stats(int device, uint64_t id) {
  const Site& site = DeviceState::get(device).sites().at(id);
  nb::dict paths;
  for (size_t path = 0; path < kNumHostPaths; ++path) {
    const int64_t count = site.host_paths[path].load();
    if (count != 0) paths[to_string(static_cast<HostPath>(path))] = count;
  }
  nb::dict entry;
  entry["host_size_launches"] = paths;
  entry["guards_tripped"] = site.num_guard_trips();
  return entry;
}

}  // namespace

void bind_cublaslt(nb::module_& m) {
  m.def("host_path", &path_of, nb::arg("sizes"), nb::kw_only(), nb::arg("m"), nb::arg("k"),
        nb::arg("n"), nb::arg("dtype") = "bfloat16", nb::arg("out_dtype") = "bfloat16",
        nb::arg("is_drhs") = false, nb::arg("use") = "auto", nb::arg("static_only") = false,
        nb::arg("has_bias") = false, nb::arg("num_layers") = 1, nb::arg("num_groups") = -1);
  m.def("row_bucket", &row_bucket, nb::arg("rows"));
  m.def(
      "set_cublaslt_use", [](const std::string& use) { set_cublaslt_use(use_named(use)); },
      nb::arg("use"));
  m.def("open_cublaslt", &install, nb::kw_only(), nb::arg("version") = 130002,
        nb::arg("num_steps") = 1, nb::arg("num_algorithms") = 3, nb::arg("refused_rows") = 0,
        nb::arg("workspace_bytes") = 0, nb::arg("first_state") = 0);
  m.def("close_cublaslt", &FakeCublasLt::remove);
  m.def("cublaslt_calls", &calls);
  m.def("clear_cublaslt_calls", [] {
    std::lock_guard<std::mutex> lock(FakeCublasLt::current().mutex);
    FakeCublasLt::current().calls.clear();
  });
  m.def("num_cublaslt_streams", [] {
    std::lock_guard<std::mutex> lock(FakeCublasLt::current().mutex);
    return FakeCublasLt::current().streams.size();
  });
  m.def("fail_cublaslt", &fail, nb::arg("function"), nb::arg("status"), nb::arg("nth") = 1);
  m.def("cublaslt_violations", [] {
    std::lock_guard<std::mutex> lock(FakeCublasLt::current().mutex);
    return FakeCublasLt::current().violations;
  });
  m.def("num_live_cublaslt_objects", [] {
    std::lock_guard<std::mutex> lock(FakeCublasLt::current().mutex);
    return FakeCublasLt::current().num_live;
  });
  m.def(
      "cublaslt_state", [](int device) { return DeviceState::get(device).cublaslt().state(); },
      nb::arg("device") = 0);
  m.def("host_launch_stats", &site_stats, nb::arg("device"), nb::arg("site"));
}

}  // namespace graphsafe_gg::testing
