// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Threads of the emulated device: each has a stack of its own and runs until it suspends itself.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>

namespace graphsafe_gg::emulation {

class Fiber {
 public:
  using Body = void (*)(void* argument);

  // `stack` must outlive the fiber. Nothing on it is destroyed if the fiber is dropped half way.
  void start(Body body, void* argument, unsigned char* stack, size_t stack_bytes);

  // Runs the fiber until it suspends or ends.
  void resume();

  // Back to the caller of resume; called on the fiber.
  void suspend();

  // The same from a signal handler, for good.
  [[noreturn]] static void abandon();

 private:
  static void enter(unsigned low, unsigned high);

  ucontext_t entry_;
  std::jmp_buf here_;
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool has_begun_ = false;
};

}  // namespace graphsafe_gg::emulation
