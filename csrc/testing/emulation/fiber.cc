// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/fiber.h"

#include <cstdint>

namespace graphsafe_gg::emulation {
namespace {

std::jmp_buf g_resumer;

}  // namespace

// makecontext passes ints alone.
void Fiber::enter(unsigned low, unsigned high) {
  auto* fiber = reinterpret_cast<Fiber*>(uint64_t{high} << 32 | low);
  fiber->body_(fiber->argument_);
  _longjmp(g_resumer, 1);
}

void Fiber::start(Body body, void* argument, unsigned char* stack, size_t stack_bytes) {
  body_ = body;
  argument_ = argument;
  has_begun_ = false;
  getcontext(&entry_);
  entry_.uc_stack.ss_sp = stack;
  entry_.uc_stack.ss_size = stack_bytes;
  entry_.uc_link = nullptr;
  const auto self = reinterpret_cast<uint64_t>(this);
  makecontext(&entry_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
}

// _setjmp makes no system call, which swapcontext does at every switch.
void Fiber::resume() {
  if (_setjmp(g_resumer) != 0) return;
  if (has_begun_) _longjmp(here_, 1);
  has_begun_ = true;
  setcontext(&entry_);
}

void Fiber::suspend() {
  if (_setjmp(here_) == 0) _longjmp(g_resumer, 1);
}

void Fiber::abandon() { _longjmp(g_resumer, 1); }

}  // namespace graphsafe_gg::emulation
