// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulations.h"

#include <algorithm>

#include "cpu/vector_kernels.h"
#include "kernels/config.h"
#include "kernels/dispatch.h"
#include "kernels/kernel_args.h"
#include "kernels/local_groups.h"
#include "kernels/problem.h"
#include "kernels/ticket.h"
#include "runtime/group_sizes.h"

namespace graphsafe_gg::sim {
namespace {

constexpr DeviceTraits kTraits = {90, kNumSms, kMaxSmemBlockBytes, kMaxSmemSmBytes};

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<float> load(KernelRun& run, DType dtype, const void* address, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  if (count == 0) return values;
  cpu::to_float(dtype, run.view(address, count * size_bytes(dtype)), count, values.data());
  return values;
}

void store(KernelRun& run, DType dtype, void* address, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  if (count == 0) return;
  cpu::from_float(dtype, values.data(), count, run.view(address, count * size_bytes(dtype)));
}

// Where none is recorded yet.
void record(KernelRun& run, const KernelArgs& args, const SizeErrorRecord& error) {
  if (error.kind == kNoSizeError || args.error == nullptr) return;
  auto* recorded = run.view<SizeErrorRecord>(args.error, sizeof(SizeErrorRecord));
  if (__atomic_load_n(&recorded->kind, __ATOMIC_ACQUIRE) != kNoSizeError) return;
  recorded->index = error.index;
  recorded->value = error.value;
  recorded->limit = error.limit;
  __atomic_store_n(&recorded->kind, error.kind, __ATOMIC_RELEASE);
}

int64_t value_of(KernelRun& run, const IndexOperand& operand) {
  if (operand.address == nullptr) return operand.value;
  const auto type = static_cast<IndexType>(operand.type);
  return read_index(run.view(operand.address, size_bytes(type)), type);
}

LocalGroups clamped_groups(KernelRun& run, const Problem& p, const KernelArgs& args) {
  const int64_t offset = value_of(run, args.group_offset);
  const int64_t layer = value_of(run, args.layer);
  record(run, args, find_index_error(p, offset, layer));
  return local_groups(offset, layer, p.num_sizes, p.num_groups, p.num_layers);
}

// Negative sizes count as 0, a group is cut to the rows that are left, the first error is recorded.
std::vector<int64_t> clamped_sizes(KernelRun& run, const Problem& problem, const KernelArgs& args) {
  if (problem.num_sizes == 0) return {};
  const void* bytes = run.view(args.group_sizes, problem.num_sizes * size_bytes(problem.size_type));
  auto sizes = read_group_sizes(bytes, problem.size_type, problem.num_sizes);
  record(run, args, find_size_error(sizes, problem.m));
  int64_t left = problem.m;
  for (int64_t& size : sizes) {
    size = std::clamp<int64_t>(size, 0, left);
    left -= size;
  }
  return sizes;
}

void run_m_grouped(KernelRun& run, const Problem& p, const KernelArgs& args) {
  const LocalGroups local = clamped_groups(run, p, args);
  const auto sizes = clamped_sizes(run, p, args);
  const int64_t num_matrices = p.num_layers * p.num_groups;
  const auto lhs = load(run, p.dtype, args.lhs, p.m * p.k);
  const auto rhs = load(run, p.dtype, args.rhs, num_matrices * p.k * p.n);
  auto bias = load(run, p.dtype, args.bias, p.has_bias ? num_matrices * p.n : 0);
  if (!p.has_bias) bias.resize(static_cast<size_t>(num_matrices * p.n), 0.0f);
  std::vector<float> out(static_cast<size_t>(p.m * p.n), 0.0f);
  int64_t row = 0;
  for (int64_t group = 0; group < p.num_sizes; ++group) {
    const int64_t end = row + sizes[static_cast<size_t>(group)];
    if (group < local.first || group >= local.end) {
      row = end;
      continue;
    }
    const int64_t matrix = group + local.matrix_base;
    const float* weights = rhs.data() + matrix * p.k * p.n;
    for (; row < end; ++row) {
      for (int64_t col = 0; col < p.n; ++col) {
        float sum = 0.0f;
        for (int64_t i = 0; i < p.k; ++i) {
          const int64_t at = p.transpose_rhs ? col * p.k + i : i * p.n + col;
          sum += lhs[static_cast<size_t>(row * p.k + i)] * weights[at];
        }
        out[static_cast<size_t>(row * p.n + col)] =
            sum + bias[static_cast<size_t>(matrix * p.n + col)];
      }
    }
  }
  store(run, p.out_dtype, args.out, out);
}

void run_k_grouped(KernelRun& run, const Problem& p, const KernelArgs& args) {
  const LocalGroups local = clamped_groups(run, p, args);
  const auto sizes = clamped_sizes(run, p, args);
  const auto lhs = load(run, p.dtype, args.lhs, p.m * p.k);
  const auto dout = load(run, p.dtype, args.rhs, p.m * p.n);
  std::vector<float> out(static_cast<size_t>(p.num_groups * p.k * p.n), 0.0f);
  int64_t row = 0;
  for (int64_t group = 0; group < p.num_sizes; ++group) {
    const int64_t end = row + sizes[static_cast<size_t>(group)];
    if (group < local.first || group >= local.end) {
      row = end;
      continue;
    }
    float* result = out.data() + (group + local.matrix_base) * p.k * p.n;
    for (; row < end; ++row) {
      for (int64_t i = 0; i < p.k; ++i) {
        const float left = lhs[static_cast<size_t>(row * p.k + i)];
        for (int64_t col = 0; col < p.n; ++col) {
          result[i * p.n + col] += left * dout[static_cast<size_t>(row * p.n + col)];
        }
      }
    }
  }
  store(run, p.out_dtype, args.out, out);
}

// csrc/kernels/guard.cuh
bool guard_holds(KernelRun& run, const KernelArgs& args) {
  if (args.guard_stamp == nullptr) return false;
  if (*run.view<uint64_t>(args.guard_stamp, sizeof(uint64_t)) == args.expected_stamp) return true;
  ++*run.view<uint64_t>(args.guard_trips, sizeof(uint64_t));
  return false;
}

// Counts launches whose kernel is not the one that these very sizes choose: where the host knew
// sizes, it knew others.
void count_other_launch(KernelRun& run, const Problem& problem, KernelArgs args) {
  args.error = nullptr;
  const auto sizes = clamped_sizes(run, problem, args);
  const auto largest = std::max_element(sizes.begin(), sizes.end());
  const Config config = choose_config(problem, kTraits, largest == sizes.end() ? 0 : *largest);
  const Kernel* kernel = find_kernel(problem, config);
  if (kernel == nullptr || run.symbol() != kernel->symbol) {
    ++run.device_word("gg_test_other_launches");
  }
}

void run_grouped(KernelRun& run) {
  const auto args = run.param<KernelArgs>(0);
  if (guard_holds(run, args)) return;
  const Problem problem = problem_of(run.symbol(), args);
  count_other_launch(run, problem, args);
  if (problem.product == Product::kMGrouped) {
    run_m_grouped(run, problem, args);
  } else {
    run_k_grouped(run, problem, args);
  }
}

void run_publish(KernelRun& run) {
  const auto args = run.param<PublishArgs>(0);
  if (reinterpret_cast<uintptr_t>(args.ticket) % 16 != 0) {
    throw IllegalAddress("a ticket must start at a multiple of 16 bytes");
  }
  const uint64_t stamp = ticket_stamp(args.ordinal, ++run.device_word("gg_num_copies"));
  const auto* bytes = run.view<unsigned char>(args.group_sizes, args.size_bytes);
  auto* header = run.view<TicketHeader>(args.ticket, ticket_bytes(args.size_bytes));
  auto* payload = reinterpret_cast<uint32_t*>(header + 1);
  uint64_t checksum = ticket_checksum_term(stamp, -1);
  for (int64_t word = 0; word < ticket_payload_words(args.size_bytes); ++word) {
    uint32_t value = 0;
    for (int64_t b = 0; b < kTicketWordBytes; ++b) {
      const int64_t byte = word * kTicketWordBytes + b;
      if (byte < args.size_bytes) value |= static_cast<uint32_t>(bytes[byte]) << (8 * b);
    }
    payload[word] = value;
    checksum += ticket_checksum_term(value, word);
  }
  *header = {stamp, checksum, static_cast<uint64_t>(args.size_bytes), 0};
}

// gg_test_route(state, sizes, num_groups, m): draws int32 sizes that sum to at most m, now small
// ones, now large, and steps the state; tests/sim/simulated.py has the same rule.
void run_route(KernelRun& run) {
  auto* state = run.view<uint64_t>(run.param<void*>(0), sizeof(uint64_t));
  const auto num_groups = run.param<int64_t>(2);
  auto* sizes =
      run.view<int32_t>(run.param<void*>(1), num_groups * static_cast<int64_t>(sizeof(int32_t)));
  const auto draw = [state] {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
  };
  auto left = static_cast<uint64_t>(run.param<int64_t>(3));
  constexpr uint64_t kCaps[] = {12, 50, 1000};
  const uint64_t cap = kCaps[draw() % 3];
  for (int64_t i = 0; i < num_groups; ++i) {
    const uint64_t size = draw() % (std::min(left, cap) + 1);
    sizes[i] = static_cast<int32_t>(size);
    left -= size;
  }
}

// gg_test_copy(to, from, size_bytes)
void run_copy(KernelRun& run) {
  const auto bytes = run.param<int64_t>(2);
  std::memmove(run.view(run.param<void*>(0), bytes), run.view(run.param<void*>(1), bytes),
               static_cast<size_t>(bytes));
}

}  // namespace

Problem problem_of(const std::string& symbol, const KernelArgs& args) {
  Problem problem{};
  problem.product = starts_with(symbol, "gg_drhs") ? Product::kKGrouped : Product::kMGrouped;
  problem.dtype = contains(symbol, "_bf16")  ? DType::kBF16
                  : contains(symbol, "_f16") ? DType::kF16
                                             : DType::kF32;
  problem.transpose_rhs = contains(symbol, "_gnk");
  problem.out_dtype = static_cast<DType>(args.out_dtype);
  problem.size_type = static_cast<IndexType>(args.size_type);
  problem.has_bias = args.bias != nullptr;
  problem.num_layers = args.num_layers;
  problem.num_sizes = args.num_sizes;
  problem.num_groups = args.num_groups;
  problem.m = args.m;
  problem.k = args.k;
  problem.n = args.n;
  return problem;
}

Emulation make_emulation(const std::string& symbol) {
  if (starts_with(symbol, "gg_fwd_") || starts_with(symbol, "gg_drhs_")) {
    return {{sizeof(KernelArgs)}, run_grouped, nullptr};
  }
  if (symbol == "gg_publish_sizes") return {{sizeof(PublishArgs)}, run_publish, nullptr};
  if (symbol == "gg_test_route") return {{8, 8, 8, 8}, run_route, nullptr};
  if (symbol == "gg_test_copy") return {{8, 8, 8}, run_copy, nullptr};
  if (symbol == "gg_test_delay") {  // gg_test_delay(num_steps)
    return {{8},
            [](KernelRun&) {},
            [](const Params& params) {
              int64_t num_steps = 0;
              std::memcpy(&num_steps, params[0].data(), sizeof(num_steps));
              return num_steps;
            }};
  }
  return {};
}

}  // namespace graphsafe_gg::sim
