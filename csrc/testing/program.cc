// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/program.h"

namespace graphsafe_gg::testing {
namespace {

struct NamedType {
  const char* name;
  XLA_FFI_DataType dtype;
  size_t size_bytes;
};

constexpr NamedType kTypes[] = {
    {"bool", XLA_FFI_DataType_PRED, 1},    {"int8", XLA_FFI_DataType_S8, 1},
    {"int16", XLA_FFI_DataType_S16, 2},    {"int32", XLA_FFI_DataType_S32, 4},
    {"int64", XLA_FFI_DataType_S64, 8},    {"uint8", XLA_FFI_DataType_U8, 1},
    {"uint16", XLA_FFI_DataType_U16, 2},   {"uint32", XLA_FFI_DataType_U32, 4},
    {"uint64", XLA_FFI_DataType_U64, 8},   {"float16", XLA_FFI_DataType_F16, 2},
    {"float32", XLA_FFI_DataType_F32, 4},  {"float64", XLA_FFI_DataType_F64, 8},
    {"bfloat16", XLA_FFI_DataType_BF16, 2}};

}  // namespace

XLA_FFI_DataType dtype_named(const std::string& name) {
  for (const NamedType& type : kTypes) {
    if (name == type.name) return type.dtype;
  }
  throw std::invalid_argument("dtype must be one of XLA's; got " + name);
}

size_t size_bytes(XLA_FFI_DataType dtype) {
  for (const NamedType& type : kTypes) {
    if (dtype == type.dtype) return type.size_bytes;
  }
  return 0;
}

size_t LogicalBuffer::size_bytes() const {
  size_t bytes = testing::size_bytes(dtype);
  for (const int64_t dim : dims) bytes *= static_cast<size_t>(dim);
  return bytes;
}

}  // namespace graphsafe_gg::testing
