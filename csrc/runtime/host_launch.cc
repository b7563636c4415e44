// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_launch.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "kernels/ticket.h"
#include "runtime/context_guard.h"
#include "runtime/errors.h"

namespace graphsafe_gg {
namespace {

using Sizes = std::vector<int64_t>;

std::atomic<CublasLtUse> g_use{CublasLtUse::kAuto};

const void* offset(const void* base, int64_t elements, DType dtype) {
  return static_cast<const char*>(base) + elements * size_bytes(dtype);
}

void* offset(void* base, int64_t elements, DType dtype) {
  return static_cast<char*>(base) + elements * size_bytes(dtype);
}

CublasLtOperands group_operands(const Problem& p, const Operands& all, int64_t group,
                                int64_t first_row) {
  const int64_t matrix = group * p.k * p.n;
  const void* lhs_rows = offset(all.lhs, first_row * p.k, p.dtype);
  if (p.product == Product::kMGrouped) {
    return {offset(all.rhs, matrix, p.dtype), lhs_rows,
            offset(all.out, first_row * p.n, p.out_dtype)};
  }
  return {offset(all.rhs, first_row * p.n, p.dtype), lhs_rows,
          offset(all.out, matrix, p.out_dtype)};
}

void set_zero(const Problem& problem, void* out, int64_t first, int64_t count, CUstream stream,
              int ordinal) {
  if (count == 0) return;
  const auto address = reinterpret_cast<cuda::DevicePtr>(offset(out, first, problem.out_dtype));
  check(cuda_api().memset_d8_async(
            address, 0, static_cast<size_t>(count * size_bytes(problem.out_dtype)), stream),
        "cuMemsetD8Async", ordinal);
}

// The part of the result that no group's GEMM writes: rows past the sum, or the weight gradients
// of empty groups, neighbours in one go.
void set_rest_zero(const Problem& p, const Sizes& sizes, void* out, CUstream stream, int ordinal) {
  if (p.product == Product::kMGrouped) {
    int64_t rows = 0;
    for (const int64_t size : sizes) rows += size;
    return set_zero(p, out, rows * p.n, (p.m - rows) * p.n, stream, ordinal);
  }
  const auto is_empty = [](int64_t size) { return size == 0; };
  for (auto begin = sizes.begin(); begin != sizes.end();) {
    begin = std::find_if(begin, sizes.end(), is_empty);
    const auto end = std::find_if_not(begin, sizes.end(), is_empty);
    set_zero(p, out, (begin - sizes.begin()) * p.k * p.n, (end - begin) * p.k * p.n, stream,
             ordinal);
    begin = end;
  }
}

// XLA's buffers do, and so does every slice of one whose rows are aligned, unless a program cuts
// it out of a flat array at an odd place.
bool has_aligned_bases(const Operands& operands) {
  for (const void* operand : {operands.lhs, operands.rhs, static_cast<const void*>(operands.out)}) {
    if (reinterpret_cast<uintptr_t>(operand) % 16 != 0) return false;
  }
  return true;
}

// kCublasLt once all groups are enqueued and joined; else why the own kernels must compute the
// whole result, some of which may be enqueued and joined already.
HostPath launch_groups(DeviceState& device, const Problem& problem, const Operands& operands,
                       const Sizes& sizes, CUstream stream) {
  const CublasLtDevice::Access access(device.cublaslt());
  if (!access.has_library()) return HostPath::kNoLibrary;
  CublasLtPlan* plan = access.plan(problem);
  if (plan == nullptr) return HostPath::kNoAlgorithm;
  size_t num_groups = 0;
  for (const int64_t size : sizes) {
    if (size == 0) continue;
    if (!plan->can_run(size)) return HostPath::kNoAlgorithm;
    ++num_groups;
  }
  if (!has_aligned_bases(operands)) return HostPath::kMisaligned;

  const CudaApi& api = cuda_api();
  const ContextGuard guard(api, device.context(), device.ordinal());
  // The library loads a kernel when it first launches it.
  const RelaxedCaptureMode relaxed(api);
  Fork fork(access.side_streams(), stream, num_groups);
  // On the caller's stream: behind all earlier readers and writers of the result, beside the lanes.
  set_rest_zero(problem, sizes, operands.out, stream, device.ordinal());
  HostPath path = HostPath::kCublasLt;
  size_t lane = 0;
  int64_t row = 0;
  for (size_t group = 0; group < sizes.size(); ++group) {
    const int64_t rows = sizes[group];
    if (rows == 0) continue;
    const lt::Status status =
        plan->run(rows, group_operands(problem, operands, static_cast<int64_t>(group), row),
                  fork.lane(lane++));
    if (status == lt::kNotSupported) {
      path = HostPath::kRefused;
      break;
    }
    check(plan->api(), status, "cublasLtMatmul", device.ordinal());
    row += rows;
  }
  fork.join();
  return path;
}

}  // namespace

void set_cublaslt_use(CublasLtUse use) { g_use.store(use, std::memory_order_relaxed); }

void prepare_host_launch(DeviceState& device, const Problem& problem) {
  load_kernels(device, problem, /*has_known_sizes=*/true);
  if (host_path(problem, g_use.load(std::memory_order_relaxed)) != HostPath::kCublasLt) return;
  const ContextGuard guard(cuda_api(), device.context(), device.ordinal());
  device.cublaslt().prepare(problem);
}

void launch_with_sizes(DeviceState& device, const Problem& problem, const Operands& operands,
                       const HostSizes& host, const void* ticket, Site& site, CUstream stream) {
  HostPath path = host_path(problem, host.sizes, g_use.load(std::memory_order_relaxed));
  if (path == HostPath::kCublasLt) {
    path = launch_groups(device, problem, operands, host.sizes, stream);
  }
  site.count(path);
  if (path != HostPath::kCublasLt) {
    const auto largest = std::max_element(host.sizes.begin(), host.sizes.end());
    launch(device, problem, operands, site, largest == host.sizes.end() ? 0 : *largest, stream);
    return;
  }
  device.counters().launches.fetch_add(1, std::memory_order_relaxed);
  if (host.stamp == 0) return;
  // The host's sizes may be another execution's: the device compares, and computes anew if so.
  const auto* header = static_cast<const TicketHeader*>(ticket);
  launch(device, problem, operands, site, /*max_group_rows=*/-1, stream,
         {&header->stamp, host.stamp});
}

}  // namespace graphsafe_gg
