// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// What one thread of a block does with shared memory, and where it meets the others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphsafe_gg::emulation {

uint32_t shared_address(const void* pointer);
void load_shared(uint32_t smem, void* to, uint32_t bytes);
void store_shared(uint32_t smem, const void* from, uint32_t bytes);

// Shows the thread's stores to the asynchronous units; its barriers, too.
void fence_async();
void fence_barrier_init();

void sync_block();
void sync_threads(int id, unsigned count);
void sync_cluster();
uint32_t cluster_rank();

// Fails unless it is in an operand.
void check_global(const void* address, const char* what);
void check_alignment(const void* address, size_t alignment);

}  // namespace graphsafe_gg::emulation
