// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Between XLA and us: call frames become Problems, exceptions become ffi::Error. No exception
// leaves a handler: the oldest supported FFI headers would let it end the process.
#pragma once

#include <exception>
#include <new>

#include "kernels/problem.h"
#include "runtime/errors.h"
#include "runtime/nvtx.h"
#include "xla/ffi/api/ffi.h"

namespace graphsafe_gg {

namespace ffi = xla::ffi;

// Runs a handler's body, under a range with the name of the handler that calls it.
template <typename Body>
ffi::Error fence(Body&& body, const char* handler = __builtin_FUNCTION()) noexcept {
  const NvtxRange range(handler);
  try {
    body();
    return ffi::Error::Success();
  } catch (const InvalidArgument& error) {
    return ffi::Error::InvalidArgument(error.what());
  } catch (const Unimplemented& error) {
    return ffi::Error(ffi::ErrorCode::kUnimplemented, error.what());
  } catch (const OutOfMemory& error) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, error.what());
  } catch (const std::bad_alloc&) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "grouped_gemm: out of host memory");
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  } catch (...) {
    return ffi::Error::Internal("grouped_gemm: unknown C++ exception");
  }
}

// lhs (m, k), rhs (g, k, n) or, transposed, (g, n, k), sizes (g,), out (m, n). Throws
// InvalidArgument, naming the operand, when they do not fit.
Problem grouped_gemm_problem(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& rhs,
                             const ffi::AnyBuffer& group_sizes, const ffi::AnyBuffer& out,
                             bool transpose_rhs);

// lhs (m, k), dout (m, n), sizes (g,), out (g, k, n).
Problem drhs_problem(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& dout,
                     const ffi::AnyBuffer& group_sizes, const ffi::AnyBuffer& out);

// Throws InvalidArgument unless the array holds integers.
IndexType index_type_of(const ffi::AnyBuffer& group_sizes);

}  // namespace graphsafe_gg
