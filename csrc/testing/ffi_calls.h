// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// XLA's side of the FFI C interface: the table of functions that a handler may call, and call
// frames made by hand.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/cuda_driver.h"
#include "xla/ffi/api/c_api.h"

namespace graphsafe_gg::testing {

// An error that a handler returned, or that XLA itself would raise.
class ExecutionError : public std::runtime_error {
 public:
  ExecutionError(XLA_FFI_Error_Code code, const std::string& message);
  XLA_FFI_Error_Code code() const { return code_; }

 private:
  XLA_FFI_Error_Code code_;
};
const char* to_string(XLA_FFI_Error_Code code);

struct BufferArg {
  XLA_FFI_DataType dtype;
  std::vector<int64_t> dims;
  void* data;  // null in the instantiate stage
};

struct Attribute {
  std::string name;
  XLA_FFI_DataType dtype;  // of a scalar; INVALID: `text` is the value
  int64_t value = 0;       // its low bytes are the scalar's
  std::string text;
};

// What the handler finds in the execution context.
struct Context {
  bool has_stream = false;
  CUstream stream = nullptr;
  int32_t ordinal = -1;
  int64_t run_id = 0;
};

// Throws ExecutionError when the handler returns an error.
void call_handler(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, const Context& context,
                  const std::vector<BufferArg>& args, const std::vector<BufferArg>& results,
                  const std::vector<Attribute>& attributes);

struct Target {
  std::string name;
  XLA_FFI_Handler* instantiate = nullptr;
  XLA_FFI_Handler* prepare = nullptr;
  XLA_FFI_Handler* initialize = nullptr;
  XLA_FFI_Handler* execute = nullptr;
  bool is_capturable = false;  // read from the execute handler's metadata
};

// Looks among the package's registrations for CUDA and the targets of the tests. Throws NOT_FOUND.
Target find_target(const std::string& name);

}  // namespace graphsafe_gg::testing
