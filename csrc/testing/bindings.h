// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

namespace graphsafe_gg::testing {

void bind_simulation(nanobind::module_& m);
void bind_graphs(nanobind::module_& m);
void bind_executor(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);
void bind_conformance(nanobind::module_& m);
void bind_handler_time(nanobind::module_& m);
void bind_cublaslt(nanobind::module_& m);
void bind_configs(nanobind::module_& m);
void bind_emulation(nanobind::module_& m);
void bind_cpu(nanobind::module_& m);

}  // namespace graphsafe_gg::testing
