// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A simulated driver with XLA's client on it, as Python holds it. The objects live until the
// process ends, because Python may keep buffers and programs of a closed one.
#pragma once

#include "testing/executor.h"
#include "testing/machine.h"

namespace graphsafe_gg::testing {

class Simulation {
 public:
  // Takes the runtime's place of a driver. One at a time.
  static Simulation* open(const sim::Options& options);
  // Evicts every graph, finishes the work, ends the runtime's state and returns what is left of
  // what the runtime made. The simulation is of no use afterwards.
  sim::LiveCounts close();

  sim::SimDriver& driver() { return *driver_; }
  Machine& machine() { return *machine_; }

 private:
  sim::SimDriver* driver_ = nullptr;
  Machine* machine_ = nullptr;
};

}  // namespace graphsafe_gg::testing
