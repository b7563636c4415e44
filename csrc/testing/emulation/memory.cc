// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
#include "testing/emulation/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace graphsafe_gg::emulation {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every type of float, -1 in those of integers
constexpr size_t kAlignment = 16;  // as little as any kernel asks of operands that are aligned
constexpr size_t kGuardBytes = size_t{1} << 20;

size_t round_up(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

Buffer::Buffer(std::string name, size_t size_bytes, size_t misalignment, bool is_low)
    : name_(std::move(name)), size_bytes_(size_bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  mapped_bytes_ = round_up(size_bytes + kAlignment, page);
  void* all = mmap(nullptr, mapped_bytes_ + 2 * kGuardBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<unsigned char*>(all) + kGuardBytes;
  mprotect(pages_, mapped_bytes_, PROT_READ | PROT_WRITE);
  std::memset(pages_, kPoison, mapped_bytes_);
  const size_t latest = mapped_bytes_ - size_bytes - misalignment;
  data_ = pages_ + (is_low ? 0 : latest / kAlignment * kAlignment) + misalignment;
}

Buffer::~Buffer() { munmap(pages_ - kGuardBytes, mapped_bytes_ + 2 * kGuardBytes); }

bool Buffer::holds(const void* address, size_t count) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  return at >= begin && at - begin <= size_bytes_ && count <= size_bytes_ - (at - begin);
}

void Buffer::forbid_writes() { mprotect(pages_, mapped_bytes_, PROT_READ); }

bool Buffer::has_spilled() const {
  const auto is_written = [](unsigned char byte) { return byte != kPoison; };
  return std::any_of(pages_, data_, is_written) ||
         std::any_of(data_ + size_bytes_, pages_ + mapped_bytes_, is_written);
}

Buffer& Memory::add(const std::string& name, size_t size_bytes, size_t misalignment) {
  return buffers_.emplace_back(name, size_bytes, misalignment, is_low_);
}

bool Memory::holds(const void* address, size_t count) const {
  return std::any_of(buffers_.begin(), buffers_.end(),
                     [&](const Buffer& buffer) { return buffer.holds(address, count); });
}

std::string Memory::describe(const void* address) const {
  const Buffer* nearest = nullptr;
  int64_t distance = INT64_MAX;
  for (const Buffer& buffer : buffers_) {
    const int64_t from_start = static_cast<const unsigned char*>(address) - buffer.data();
    const int64_t from_end = from_start - static_cast<int64_t>(buffer.size_bytes());
    const int64_t here = from_end >= 0 ? from_end : (from_start < 0 ? from_start : 0);
    if (nearest != nullptr && std::abs(here) >= std::abs(distance)) continue;
    nearest = &buffer;
    distance = here;
  }
  if (nearest == nullptr) return "at no operand";
  if (distance == 0 && nearest->holds(address, 1)) return "a store into " + nearest->name();
  return std::to_string(std::abs(distance)) + " bytes " +
         (distance < 0 ? "before " : "past the end of ") + nearest->name();
}

std::string Memory::find_spill() const {
  for (const Buffer& buffer : buffers_) {
    if (buffer.has_spilled()) return buffer.name();
  }
  return "";
}

}  // namespace graphsafe_gg::emulation
