// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Global memory of an emulated launch: each operand between pages that cannot be read.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace graphsafe_gg::emulation {

class Buffer {
 public:
  // Starts `misalignment` bytes past a multiple of 16, as close to the unreadable page before it
  // (`is_low`) or behind it as that allows.
  Buffer(std::string name, size_t size_bytes, size_t misalignment, bool is_low);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }
  const std::string& name() const { return name_; }
  bool holds(const void* address, size_t count) const;

  void forbid_writes();
  // Whether the bytes around the operand that could be written have been.
  bool has_spilled() const;

 private:
  const std::string name_;
  const size_t size_bytes_;
  size_t mapped_bytes_ = 0;
  unsigned char* pages_ = nullptr;  // those that can be read
  unsigned char* data_ = nullptr;
};

class Memory {
 public:
  explicit Memory(bool is_low) : is_low_(is_low) {}

  Buffer& add(const std::string& name, size_t size_bytes, size_t misalignment);
  bool holds(const void* address, size_t count) const;
  std::string describe(const void* address) const;
  // The name of an operand that was written around; empty if there is none.
  std::string find_spill() const;

 private:
  const bool is_low_;
  std::deque<Buffer> buffers_;
};

}  // namespace graphsafe_gg::emulation
