// SPDX-FileCopyrightText: The graphsafe_gg authors
// SPDX-License-Identifier: Apache-2.0
// Shares the blocks of a call with the threads of a pool.
#pragma once

#include <cstdint>
#include <functional>

#include "cpu/block.h"

namespace graphsafe_gg::cpu {

// A pool of threads that runs what it is given at some time, on any of them.
struct Workers {
  int64_t num_threads = 1;  // useful at a time, the caller's among them
  std::function<void(std::function<void()>)> schedule;
};

// Calls compute(i, scratch) once for each i in [0, count), on the caller and on up to
// num_threads - 1 workers. Which thread takes which i is left to chance; floating-point modes are
// the caller's. The caller waits for blocks that others have begun, never for a worker to start,
// so a pool whose threads all call this cannot lock up. Rethrows the first exception.
void for_each_block(int64_t count, const Workers& workers, int64_t num_threads,
                    const std::function<void(int64_t, Scratch&)>& compute);

}  // namespace graphsafe_gg::cpu
