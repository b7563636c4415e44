// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/ffi_calls.h"

#include <algorithm>

#include "ffi/registrations.h"
#include "testing/test_targets.h"

// The C interface leaves these two to XLA.
struct XLA_FFI_Error {
  XLA_FFI_Error_Code code;
  std::string message;
};

struct XLA_FFI_ExecutionContext {
  const graphsafe_gg::testing::Context* context;
};

namespace graphsafe_gg::testing {
namespace {

XLA_FFI_Error* error(XLA_FFI_Error_Code code, const char* message) {
  return new XLA_FFI_Error{code, message};
}

XLA_FFI_Error* create_error(XLA_FFI_Error_Create_Args* args) {
  return error(args->errc, args->message);
}

void get_message(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->message.c_str();
}

void destroy_error(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* args) {
  if (!args->ctx->context->has_stream) {
    return error(XLA_FFI_Error_Code_INVALID_ARGUMENT, "XLA FFI GPU stream is not available");
  }
  args->stream = args->ctx->context->stream;
  return nullptr;
}

XLA_FFI_Error* get_ordinal(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = args->ctx->context->ordinal;
  return nullptr;
}

XLA_FFI_Error* get_run_id(XLA_FFI_RunId_Get_Args* args) {
  args->run_id = args->ctx->context->run_id;
  return nullptr;
}

const XLA_FFI_Api& ffi_api() {
  // A function that stays null is one that no handler here may call.
  static const XLA_FFI_Api table = [] {
    XLA_FFI_Api api{};
    api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                       XLA_FFI_API_MINOR};
    api.XLA_FFI_Error_Create = create_error;
    api.XLA_FFI_Error_GetMessage = get_message;
    api.XLA_FFI_Error_Destroy = destroy_error;
    api.XLA_FFI_Stream_Get = get_stream;
    api.XLA_FFI_DeviceOrdinal_Get = get_ordinal;
    api.XLA_FFI_RunId_Get = get_run_id;
    return api;
  }();
  return table;
}

void raise(XLA_FFI_Error* failure) {
  if (failure == nullptr) return;
  const ExecutionError thrown(failure->code, failure->message);
  delete failure;
  throw thrown;
}

// The C structs of buffers, which point into the vectors they were made from.
struct Buffers {
  explicit Buffers(const std::vector<BufferArg>& values) : dims(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      dims[i] = values[i].dims;
      buffers.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, values[i].dtype, values[i].data,
                         static_cast<int64_t>(dims[i].size()), dims[i].data()});
    }
    for (XLA_FFI_Buffer& buffer : buffers) pointers.push_back(&buffer);
  }
  std::vector<std::vector<int64_t>> dims;
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> pointers;
};

struct Attributes {
  explicit Attributes(std::vector<Attribute> values) : sorted(std::move(values)) {
    std::sort(sorted.begin(), sorted.end(),
              [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
    const size_t count = sorted.size();
    names.reserve(count);
    scalars.reserve(count);
    texts.reserve(count);
    for (Attribute& attribute : sorted) {
      names.push_back({attribute.name.data(), attribute.name.size()});
      name_pointers.push_back(&names.back());
      if (attribute.dtype == XLA_FFI_DataType_INVALID) {
        texts.push_back({attribute.text.data(), attribute.text.size()});
        types.push_back(XLA_FFI_AttrType_STRING);
        pointers.push_back(&texts.back());
      } else {
        scalars.push_back({attribute.dtype, &attribute.value});
        types.push_back(XLA_FFI_AttrType_SCALAR);
        pointers.push_back(&scalars.back());
      }
    }
  }
  std::vector<Attribute> sorted;
  std::vector<XLA_FFI_ByteSpan> names;
  std::vector<XLA_FFI_ByteSpan*> name_pointers;
  std::vector<XLA_FFI_Scalar> scalars;
  std::vector<XLA_FFI_ByteSpan> texts;
  std::vector<XLA_FFI_AttrType> types;
  std::vector<void*> pointers;
};

XLA_FFI_CallFrame empty_frame() {
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &ffi_api();
  frame.args.struct_size = XLA_FFI_Args_STRUCT_SIZE;
  frame.rets.struct_size = XLA_FFI_Rets_STRUCT_SIZE;
  frame.attrs.struct_size = XLA_FFI_Attrs_STRUCT_SIZE;
  return frame;
}

bool has_graph_trait(XLA_FFI_Handler* handler) {
  XLA_FFI_Metadata metadata{};
  metadata.struct_size = XLA_FFI_Metadata_STRUCT_SIZE;
  XLA_FFI_Metadata_Extension extension{};
  extension.extension_base = {XLA_FFI_Metadata_Extension_STRUCT_SIZE, XLA_FFI_Extension_Metadata,
                              nullptr};
  extension.metadata = &metadata;
  XLA_FFI_CallFrame frame = empty_frame();
  frame.extension_start = &extension.extension_base;
  raise(handler(&frame));
  return (metadata.traits & XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE) != 0;
}

void set_stage(Target& target, const std::string& stage, XLA_FFI_Handler* handler) {
  if (stage == "instantiate") target.instantiate = handler;
  if (stage == "prepare") target.prepare = handler;
  if (stage == "initialize") target.initialize = handler;
  if (stage == "execute") target.execute = handler;
}

}  // namespace

const char* to_string(XLA_FFI_Error_Code code) {
  static const char* const kNames[] = {"OK",
                                       "CANCELLED",
                                       "UNKNOWN",
                                       "INVALID_ARGUMENT",
                                       "DEADLINE_EXCEEDED",
                                       "NOT_FOUND",
                                       "ALREADY_EXISTS",
                                       "PERMISSION_DENIED",
                                       "RESOURCE_EXHAUSTED",
                                       "FAILED_PRECONDITION",
                                       "ABORTED",
                                       "OUT_OF_RANGE",
                                       "UNIMPLEMENTED",
                                       "INTERNAL",
                                       "UNAVAILABLE",
                                       "DATA_LOSS",
                                       "UNAUTHENTICATED"};
  return kNames[code];
}

ExecutionError::ExecutionError(XLA_FFI_Error_Code code, const std::string& message)
    : std::runtime_error(std::string(to_string(code)) + ": " + message), code_(code) {}

void call_handler(XLA_FFI_Handler* handler, XLA_FFI_ExecutionStage stage, const Context& context,
                  const std::vector<BufferArg>& args, const std::vector<BufferArg>& results,
                  const std::vector<Attribute>& attributes) {
  Buffers arg_buffers(args);
  Buffers result_buffers(results);
  Attributes attrs(attributes);
  std::vector<XLA_FFI_ArgType> arg_types(args.size(), XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> ret_types(results.size(), XLA_FFI_RetType_BUFFER);
  XLA_FFI_ExecutionContext ctx{&context};
  XLA_FFI_CallFrame frame = empty_frame();
  frame.ctx = &ctx;
  frame.stage = stage;
  frame.args.size = static_cast<int64_t>(args.size());
  frame.args.types = arg_types.data();
  frame.args.args = arg_buffers.pointers.data();
  frame.rets.size = static_cast<int64_t>(results.size());
  frame.rets.types = ret_types.data();
  frame.rets.rets = result_buffers.pointers.data();
  frame.attrs.size = static_cast<int64_t>(attributes.size());
  frame.attrs.types = attrs.types.data();
  frame.attrs.names = attrs.name_pointers.data();
  frame.attrs.attrs = attrs.pointers.data();
  raise(handler(&frame));
}

Target find_target(const std::string& name) {
  Target target;
  target.name = name;
  for (const auto* table : {&registrations(), &test_targets()}) {
    for (const Registration& entry : *table) {
      if (entry.target == name && std::string(entry.platform) == "CUDA") {
        set_stage(target, entry.stage, entry.handler);
      }
    }
  }
  if (target.execute == nullptr) {
    throw ExecutionError(XLA_FFI_Error_Code_NOT_FOUND, "No FFI handler registered for " + name);
  }
  target.is_capturable = has_graph_trait(target.execute);
  return target;
}

}  // namespace graphsafe_gg::testing
