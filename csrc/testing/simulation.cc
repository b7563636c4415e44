// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/simulation.h"

#include "testing/runtime_reset.h"

namespace graphsafe_gg::testing {

Simulation* Simulation::open(const sim::Options& options) {
  if (sim::SimDriver::current() != nullptr) {
    throw std::logic_error("a simulation must be closed before the next one is opened");
  }
  auto* simulation = new Simulation;
  simulation->driver_ = new sim::SimDriver(options);
  sim::SimDriver::set_current(simulation->driver_);
  set_cuda_api_for_testing(&sim::SimDriver::cuda_table());
  simulation->machine_ = new Machine(*simulation->driver_);
  return simulation;
}

sim::LiveCounts Simulation::close() {
  machine_->evict_all();
  driver_->open_gates();
  driver_->drain();
  drop_device_states();
  drop_kernel_libraries();
  driver_->drain();
  const sim::LiveCounts counts = driver_->live_counts();
  driver_->shut_down();
  sim::SimDriver::set_current(nullptr);
  set_cuda_api_for_testing(nullptr);
  return counts;
}

}  // namespace graphsafe_gg::testing
