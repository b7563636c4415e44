// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "testing/bindings.h"
#include "testing/conformance.h"

namespace nb = nanobind;

namespace graphsafe_gg::testing {

void bind_conformance(nb::module_& m) {
  m.def("conformance_checks", [] {
    std::vector<std::string> names;
    for (const Check& check : conformance_checks()) names.emplace_back(check.name);
    return names;
  });
  // Empty when the check holds. Driver "simulated" is the open simulation's, "real" is libcuda.
  m.def(
      "run_conformance",
      [](const std::string& name, const std::string& driver) {
        return run_check(name, driver == "real" ? real_driver() : simulated_driver());
      },
      nb::arg("name"), nb::arg("driver"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace graphsafe_gg::testing
