// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// A compiled program as XLA's GPU back end sees it: a list of thunks on logical buffers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "testing/ffi_calls.h"

namespace graphsafe_gg::testing {

// kParam: the caller's buffer. kResult: made at each run, the caller's afterwards. kTemp: made and
// given back at each run. kSlice: a part of another buffer that moves with the loop's iteration.
enum class Storage { kParam, kResult, kTemp, kSlice };

struct LogicalBuffer {
  Storage storage;
  XLA_FFI_DataType dtype;
  std::vector<int64_t> dims;
  size_t base = 0;  // kSlice: the buffer it is a part of; kResult: index + 1 of a donated param

  size_t size_bytes() const;
};

struct Thunk {
  enum class Kind { kCall, kKernel, kCopy, kLoop };
  Kind kind;
  std::string name;              // target, or symbol of a filler kernel
  std::vector<size_t> operands;  // logical buffers
  std::vector<size_t> results;
  std::vector<Attribute> attributes;  // of calls
  std::vector<int64_t> scalars;       // of kernels, after the buffers
  bool is_capturable = true;          // of kernels and copies; calls say it themselves
  int64_t num_iterations = 0;         // of loops
  bool blocks_host = false;           // of loops: XLA reads the condition on the host
  std::vector<Thunk> body;            // of loops
};

struct Program {
  std::vector<LogicalBuffer> buffers;
  std::vector<Thunk> thunks;

  size_t add(Storage storage, XLA_FFI_DataType dtype, std::vector<int64_t> dims, size_t base = 0) {
    buffers.push_back({storage, dtype, std::move(dims), base});
    return buffers.size() - 1;
  }
};

XLA_FFI_DataType dtype_named(const std::string& name);
size_t size_bytes(XLA_FFI_DataType dtype);

}  // namespace graphsafe_gg::testing
