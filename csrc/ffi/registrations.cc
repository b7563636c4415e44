// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "ffi/registrations.h"

#include "ffi/handlers.h"

namespace graphsafe_gg {
namespace {

// Operands, results and attributes of every product, in the order of the Python lowering.
template <typename Binding>
auto bind_product(Binding binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()  // lhs
      .template Arg<ffi::AnyBuffer>()  // rhs or dout
      .template Arg<ffi::AnyBuffer>()  // group_sizes
      .RemainingArgs()                 // ticket, bias, group_offset, layer
      .template Ret<ffi::AnyBuffer>()  // out
      .template Attrs<CallAttributes>();
}

// No call site: XLA then merges equal copies.
template <typename Binding>
auto bind_copy(Binding binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()   // group_sizes
      .template Ret<ffi::AnyBuffer>();  // ticket
}

auto cuda_initialize() {
  return ffi::Ffi::Bind<ffi::ExecutionStage::kInitialize>().Ctx<ffi::DeviceOrdinal>();
}

auto cuda_execute() {
  return ffi::Ffi::Bind().Ctx<ffi::PlatformStream<Stream>>().Ctx<ffi::DeviceOrdinal>();
}

auto cpu_execute() { return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>(); }

// XLA captures a call into a CUDA graph only if its execute handler has this trait. Each handler
// named here launches a fixed number of nodes and never waits, allocates or reads a buffer.
constexpr auto kGraphSafe = {ffi::Traits::kCmdBufferCompatible};

XLA_FFI_DEFINE_HANDLER(kGroupedGemmDeviceInitialize, grouped_gemm_device_initialize,
                       bind_product(cuda_initialize()));
XLA_FFI_DEFINE_HANDLER(kGroupedGemmDeviceExecute, grouped_gemm_device_execute,
                       bind_product(cuda_execute()), kGraphSafe);
XLA_FFI_DEFINE_HANDLER(kDrhsDeviceInitialize, drhs_device_initialize,
                       bind_product(cuda_initialize()));
XLA_FFI_DEFINE_HANDLER(kDrhsDeviceExecute, drhs_device_execute, bind_product(cuda_execute()),
                       kGraphSafe);

XLA_FFI_DEFINE_HANDLER(kCopyInitialize, group_sizes_copy_initialize, bind_copy(cuda_initialize()));
XLA_FFI_DEFINE_HANDLER(kCopyExecute, group_sizes_copy_execute, bind_copy(cuda_execute()),
                       kGraphSafe);
XLA_FFI_DEFINE_HANDLER(kTicketInitialize, group_sizes_ticket_initialize,
                       bind_copy(cuda_initialize()));
XLA_FFI_DEFINE_HANDLER(kTicketExecute, group_sizes_ticket_execute, bind_copy(cuda_execute()),
                       kGraphSafe);
// The copy as TransformerEngine's pull request 2213 has it, outside of every graph: a baseline of
// the benchmarks. No lowering emits it. It is here because its slots are those in which this
// extension's GEMM looks for them; one of another extension would fill slots that nobody reads.
XLA_FFI_DEFINE_HANDLER(kCopyUncapturedExecute, group_sizes_copy_execute, bind_copy(cuda_execute()));

XLA_FFI_DEFINE_HANDLER(kGroupedGemmHostSizesInitialize, grouped_gemm_host_sizes_initialize,
                       bind_product(cuda_initialize()));
XLA_FFI_DEFINE_HANDLER(kDrhsHostSizesInitialize, drhs_host_sizes_initialize,
                       bind_product(cuda_initialize()));
XLA_FFI_DEFINE_HANDLER(kGroupedGemmSyncExecute, grouped_gemm_sync_execute,
                       bind_product(cuda_execute()));
XLA_FFI_DEFINE_HANDLER(kDrhsSyncExecute, drhs_sync_execute, bind_product(cuda_execute()));
XLA_FFI_DEFINE_HANDLER(kGroupedGemmAsyncExecute, grouped_gemm_async_execute,
                       bind_product(cuda_execute()));
XLA_FFI_DEFINE_HANDLER(kDrhsAsyncExecute, drhs_async_execute, bind_product(cuda_execute()));

XLA_FFI_DEFINE_HANDLER(kCopyCpu, group_sizes_copy_cpu, bind_copy(ffi::Ffi::Bind()));
XLA_FFI_DEFINE_HANDLER(kGroupedGemmCpu, grouped_gemm_cpu, bind_product(cpu_execute()));
XLA_FFI_DEFINE_HANDLER(kDrhsCpu, drhs_cpu, bind_product(cpu_execute()));

}  // namespace

const std::vector<Registration>& registrations() {
  // A name is versioned: a program compiled against _v1 never runs on the operands of _v2.
  static const std::vector<Registration> table = {
      {"graphsafe_gg_grouped_gemm_device_v2", "CUDA", "initialize", kGroupedGemmDeviceInitialize},
      {"graphsafe_gg_grouped_gemm_device_v2", "CUDA", "execute", kGroupedGemmDeviceExecute},
      {"graphsafe_gg_grouped_gemm_device_v2", "cpu", "execute", kGroupedGemmCpu},
      {"graphsafe_gg_drhs_device_v2", "CUDA", "initialize", kDrhsDeviceInitialize},
      {"graphsafe_gg_drhs_device_v2", "CUDA", "execute", kDrhsDeviceExecute},
      {"graphsafe_gg_drhs_device_v2", "cpu", "execute", kDrhsCpu},
      {"graphsafe_gg_grouped_gemm_sync_v2", "CUDA", "initialize", kGroupedGemmHostSizesInitialize},
      {"graphsafe_gg_grouped_gemm_sync_v2", "CUDA", "execute", kGroupedGemmSyncExecute},
      {"graphsafe_gg_grouped_gemm_sync_v2", "cpu", "execute", kGroupedGemmCpu},
      {"graphsafe_gg_drhs_sync_v2", "CUDA", "initialize", kDrhsHostSizesInitialize},
      {"graphsafe_gg_drhs_sync_v2", "CUDA", "execute", kDrhsSyncExecute},
      {"graphsafe_gg_drhs_sync_v2", "cpu", "execute", kDrhsCpu},
      {"graphsafe_gg_grouped_gemm_async_v2", "CUDA", "initialize", kGroupedGemmHostSizesInitialize},
      {"graphsafe_gg_grouped_gemm_async_v2", "CUDA", "execute", kGroupedGemmAsyncExecute},
      {"graphsafe_gg_grouped_gemm_async_v2", "cpu", "execute", kGroupedGemmCpu},
      {"graphsafe_gg_drhs_async_v2", "CUDA", "initialize", kDrhsHostSizesInitialize},
      {"graphsafe_gg_drhs_async_v2", "CUDA", "execute", kDrhsAsyncExecute},
      {"graphsafe_gg_drhs_async_v2", "cpu", "execute", kDrhsCpu},
      {"graphsafe_gg_group_sizes_copy_v1", "CUDA", "initialize", kCopyInitialize},
      {"graphsafe_gg_group_sizes_copy_v1", "CUDA", "execute", kCopyExecute},
      {"graphsafe_gg_group_sizes_copy_v1", "cpu", "execute", kCopyCpu},
      {"graphsafe_gg_group_sizes_ticket_v1", "CUDA", "initialize", kTicketInitialize},
      {"graphsafe_gg_group_sizes_ticket_v1", "CUDA", "execute", kTicketExecute},
      {"graphsafe_gg_group_sizes_ticket_v1", "cpu", "execute", kCopyCpu},
      {"graphsafe_gg_group_sizes_copy_uncaptured_v1", "CUDA", "initialize", kCopyInitialize},
      {"graphsafe_gg_group_sizes_copy_uncaptured_v1", "CUDA", "execute", kCopyUncapturedExecute},
      {"graphsafe_gg_group_sizes_copy_uncaptured_v1", "cpu", "execute", kCopyCpu},
  };
  return table;
}

}  // namespace graphsafe_gg
