// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/faults.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <iterator>

#include "testing/emulation/fiber.h"

// glibc has the member without its name.
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace graphsafe_gg::emulation {
namespace {

constexpr time_t kMaxSeconds = 20;  // of this thread's time, for a launch that needs a part of one

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE};
struct sigaction g_outer[std::size(kFaults)];

// Of the one launch that runs.
pthread_t g_thread;
volatile sig_atomic_t g_is_emulating = 0;
volatile sig_atomic_t g_is_late = 0;
volatile sig_atomic_t g_fault = 0;
const void* volatile g_address = nullptr;

// A fault of another thread, or of the emulation itself, is the outer handler's, who gets it when
// the instruction runs again.
void handle_fault(int signal, siginfo_t* info, void*) {
  if (!g_is_emulating || !pthread_equal(pthread_self(), g_thread)) {
    for (size_t i = 0; i < std::size(kFaults); ++i) {
      if (kFaults[i] == signal) sigaction(signal, &g_outer[i], nullptr);
    }
    return;
  }
  g_fault = signal;
  g_address = info->si_addr;
  Fiber::abandon();
}

void handle_alarm(int) {
  if (!g_is_emulating) return;
  g_is_late = 1;
  Fiber::abandon();
}

}  // namespace

FaultScope::FaultScope() {
  g_fault = 0;
  g_is_late = 0;
  g_is_emulating = 1;
}

FaultScope::~FaultScope() { g_is_emulating = 0; }

std::string FaultScope::describe(const Memory& memory) const {
  if (g_is_late) return "an endless loop, or far too long a launch";
  if (g_fault == SIGFPE) return "a division by zero";
  return g_fault == 0 ? "" : "illegal access, " + memory.describe(g_address);
}

// The handlers may not return: SA_NODEFER leaves their signals unblocked.
FaultHandler::FaultHandler() {
  g_thread = pthread_self();
  struct sigaction action = {};
  action.sa_sigaction = &handle_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kFaults); ++i) sigaction(kFaults[i], &action, &g_outer[i]);
  action.sa_handler = &handle_alarm;
  action.sa_flags = SA_NODEFER | SA_RESTART;
  sigaction(SIGVTALRM, &action, &outer_alarm_);

  struct sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGVTALRM;
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_);
  const struct itimerspec when = {{kMaxSeconds, 0}, {kMaxSeconds, 0}};
  timer_settime(timer_, 0, &when, nullptr);
}

FaultHandler::~FaultHandler() {
  timer_delete(timer_);
  sigaction(SIGVTALRM, &outer_alarm_, nullptr);
  for (size_t i = 0; i < std::size(kFaults); ++i) sigaction(kFaults[i], &g_outer[i], nullptr);
}

}  // namespace graphsafe_gg::emulation
