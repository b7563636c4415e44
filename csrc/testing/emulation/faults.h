// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Turns an illegal access, a division by zero or an endless loop of emulated device code into an
// error of the emulation.
#pragma once

#include <signal.h>
#include <time.h>

#include <string>

#include "testing/emulation/memory.h"

namespace graphsafe_gg::emulation {

// While it lives, a fault of this thread abandons the fiber that runs; so does the end of its time.
class FaultScope {
 public:
  FaultScope();
  ~FaultScope();
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

  // Empty if there was none.
  std::string describe(const Memory& memory) const;
};

// Takes the signals of faults and SIGVTALRM from whoever has them, for the length of a launch.
class FaultHandler {
 public:
  FaultHandler();
  ~FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;

 private:
  struct sigaction outer_alarm_;
  timer_t timer_;
};

}  // namespace graphsafe_gg::emulation
