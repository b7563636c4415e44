// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// The exceptions the C++ side throws, one per kind of blame. csrc/ffi/boundary turns them into
// ffi::Error codes; nothing else catches them.
#pragma once

#include <stdexcept>
#include <string>

namespace graphsafe_gg {

// The caller's operands are wrong.
class InvalidArgument : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Legal, but not built for this type, GPU or toolkit.
class Unimplemented : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The driver is missing, too old, or refused a call that should work.
class DriverError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Destructors and handlers that may not fail report here: once per message, to stderr.
void report_once(const std::string& message) noexcept;

}  // namespace graphsafe_gg
