// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The test-only extension: the package's handlers on a simulated driver, run by an executor that
// plays XLA. Never part of a release.
#include "raw.h"
#include "testing/bindings.h"

NB_MODULE(_testing, m) {
  graphsafe_gg::testing::bind_simulation(m);
  graphsafe_gg::testing::bind_graphs(m);
  graphsafe_gg::testing::bind_executor(m);
  graphsafe_gg::testing::bind_runtime(m);
  graphsafe_gg::testing::bind_conformance(m);
  graphsafe_gg::testing::bind_handler_time(m);
  graphsafe_gg::testing::bind_cublaslt(m);
  graphsafe_gg::testing::bind_configs(m);
  graphsafe_gg::testing::bind_emulation(m);
  graphsafe_gg::testing::bind_cpu(m);
  graphsafe_gg::bind_raw(m);
}
