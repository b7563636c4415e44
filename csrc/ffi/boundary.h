// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Between XLA and us: call frames become Problems, exceptions become ffi::Error. No exception
// leaves a handler: the oldest supported FFI headers would let it end the process.
#pragma once

#include <exception>
#include <new>

#include "kernels/problem.h"
#include "runtime/errors.h"
#include "runtime/launch.h"
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

// Operands behind group_sizes, in this order, that `operands` says are there.
enum OptionalOperand : int64_t {
  kTicketOperand = 1,
  kBiasOperand = 2,
  kGroupOffsetOperand = 4,
  kLayerOperand = 8,
};

// The attributes of every product.
struct CallAttributes {
  bool transpose_rhs;    // grouped_gemm only
  int64_t site;          // id of the call site
  int64_t fallback;      // the Fallback that the lowering decided on
  int64_t operands;      // OptionalOperands, added up
  int64_t group_offset;  // -1 if there is none, or if it is an operand
  int64_t layer;         // the same
};

// One call, checked.
struct ProductCall {
  Problem problem;
  Operands operands;
  const void* ticket;
  CallAttributes attributes;

  uint64_t site() const { return static_cast<uint64_t>(attributes.site); }
};

// lhs (m, k), rhs (g, k, n) or, transposed, (g, n, k), sizes (g,), out (m, n), bias (g, n). With a
// layer, rhs and bias have the layers in front. With a group_offset, sizes has all groups. Throws
// InvalidArgument, naming the operand, when they do not fit.
ProductCall grouped_gemm_call(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& rhs,
                              const ffi::AnyBuffer& group_sizes, const ffi::RemainingArgs& rest,
                              const ffi::AnyBuffer& out, const CallAttributes& attributes);

// lhs (m, k), dout (m, n), sizes (g,) or of all groups, out (g, k, n).
ProductCall drhs_call(const ffi::AnyBuffer& lhs, const ffi::AnyBuffer& dout,
                      const ffi::AnyBuffer& group_sizes, const ffi::RemainingArgs& rest,
                      const ffi::AnyBuffer& out, const CallAttributes& attributes);

// Throws InvalidArgument unless the array holds integers.
IndexType index_type_of(const ffi::AnyBuffer& group_sizes);

}  // namespace graphsafe_gg

XLA_FFI_REGISTER_STRUCT_ATTR_DECODING(graphsafe_gg::CallAttributes,
                                      ::xla::ffi::StructMember<bool>("transpose_rhs"),
                                      ::xla::ffi::StructMember<int64_t>("site"),
                                      ::xla::ffi::StructMember<int64_t>("fallback"),
                                      ::xla::ffi::StructMember<int64_t>("operands"),
                                      ::xla::ffi::StructMember<int64_t>("group_offset"),
                                      ::xla::ffi::StructMember<int64_t>("layer"));
