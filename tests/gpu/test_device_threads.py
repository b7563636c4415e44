# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Several threads on one GPU, with results in flight, captured and not."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import assert_products_close, run_products, truth_of

pytestmark = pytest.mark.gpu

NUM_THREADS = 8
HELD = 10


@pytest.mark.parametrize("mode", ["device", "sync", "async"])
def test_device_threads_keep_their_sizes(device, mode):
    """Two functions, eight threads, each call with its own sizes, ten results held."""
    num_calls = 60 if is_cuda(device) else 12
    shapes = [(192, 64, 96), (128, 32, 48)]
    rng = np.random.default_rng(0)
    pools = []
    for thread in range(NUM_THREADS):
        m, k, n = shapes[thread % 2]
        pool = []
        for seed in range(3):
            sizes = rng.multinomial(m, rng.dirichlet(np.ones(8)))
            operands = random_operands(
                sizes, m, k, n, jnp.bfloat16, seed=10 * thread + seed
            )
            pool.append((jax.device_put(operands, device), truth_of(operands)))
        pools.append(pool)
    for pool in pools[:2]:
        jax.block_until_ready(run_products(*pool[0][0], mode=mode))
    failures = []
    barrier = threading.Barrier(NUM_THREADS)

    def work(thread):
        try:
            barrier.wait()
            held = []
            for call in range(num_calls):
                operands, truth = pools[thread][call % 3]
                held.append((run_products(*operands, mode=mode), truth, call))
                if len(held) == HELD:
                    products, truth, index = held.pop(0)
                    assert_products_close(products, truth, f"{thread}, {index}: ")
            for products, truth, index in held:
                assert_products_close(products, truth, f"{thread}, {index}: ")
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_device_threads_first_calls_meet(device):
    """Every thread's first call comes at once: states and kernels are made once."""
    operands = [
        random_operands([3, 0, 5 + i], 16 + i, 8 + i, 24, jnp.float16) for i in range(6)
    ]
    truths = [truth_of(o) for o in operands]
    failures = []
    barrier = threading.Barrier(6)

    def work(index):
        try:
            on_device = jax.device_put(operands[index], device)
            barrier.wait()
            for mode in ("device", "sync"):
                assert_products_close(
                    run_products(*on_device, mode=mode), truths[index]
                )
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]
