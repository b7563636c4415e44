// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Every FFI target of the package. Read registrations.cc first: it is the one table of targets,
// platforms, stages and traits.
#pragma once

#include <vector>

#include "xla/ffi/api/ffi.h"

namespace graphsafe_gg {

struct Registration {
  const char* target;
  const char* platform;  // "CUDA" or "cpu"
  const char* stage;     // "initialize" or "execute"
  XLA_FFI_Handler* handler;
};

const std::vector<Registration>& registrations();

}  // namespace graphsafe_gg
