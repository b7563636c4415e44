# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated device itself: what it refuses, and that a missing wait shows."""

import platform

import numpy as np
import pytest
from emulated import SEEDS
from graphsafe_gg._testing import EmulationError

from graphsafe_gg import _testing

THREADS = np.arange(128)
NEIGHBOURS = (THREADS + 32) % 128


def run(name):
    """The result at each seed."""
    return [np.asarray(_testing.emulate_program(name, seed)) for seed in SEEDS]


def num_wrong(name, want):
    return sum(not np.array_equal(got, want) for got in run(name))


def test_device_runs_threads_to_a_barrier():
    assert num_wrong("exchange", NEIGHBOURS) == 0


def test_device_shows_a_missing_barrier():
    assert num_wrong("exchange_without_barrier", NEIGHBOURS) == len(SEEDS)


def test_device_lands_copies_at_the_wait():
    assert num_wrong("copy", THREADS) == 0


def test_device_shows_a_copy_that_is_read_early():
    results = run("copy_without_wait")
    early = [seed for seed, got in zip(SEEDS, results, strict=True) if seed % 3 == 1]
    for seed, got in zip(SEEDS, results, strict=True):
        # At once is legal too.
        assert np.array_equal(got, THREADS) if seed in early else np.isnan(got).all()


def test_device_multiplies():
    assert num_wrong("product", np.full(128, 16.0)) == 0


@pytest.mark.parametrize(
    "name", ["product_without_proxy_fence", "product_without_wait"]
)
def test_device_shows_what_a_product_lacks(name):
    for got in run(name):
        assert np.isnan(got).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("product_without_fence", "wgmma without a wgmma.fence before it"),
        (
            "wait_for_nobody",
            "deadlock; 128 threads from 0 on wait in block 0: mbarrier at 3072, "
            r"parity 0 \(1 arrivals and 0 bytes are missing\)",
        ),
        ("arrive_too_often", "one arrival too many at mbarrier 3072 of block 0"),
        ("use_no_barrier", "mbarrier 3072 of block 0 is not initialised"),
        ("overwrite_barrier", "mbarrier 3072 of block 0 was overwritten"),
        ("arrive_at_unfenced", "is used from outside and was not fenced"),
        ("split_warp", "lanes of a warp are at .* and at"),
        ("store_past_shared_memory", "st.shared touches 16 bytes at 5120, outside"),
        ("store_unaligned", "st.shared needs 16-byte alignment; got the address 1032"),
        ("store_vector_unaligned", "16 bytes are stored to an address that is not al"),
        ("read_past_lhs", "illegal access, 16384 bytes past the end of lhs"),
        ("write_to_lhs", "illegal access, a store into lhs"),
        ("write_beside_out", "a store beside out|bytes (before|past the end of) out"),
        ("copy_by_no_map", "a tensor map of another rank, or none"),
    ],
)
def test_device_refuses(name, message):
    for seed in SEEDS:
        with pytest.raises(EmulationError, match=message):
            _testing.emulate_program(name, seed)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 traps")
def test_device_refuses_to_divide_by_zero():
    with pytest.raises(EmulationError, match="a division by zero"):
        _testing.emulate_program("divide_by_zero", 0)


def test_device_ends_blocks_as_early_as_it_can():
    messages = set()
    for seed in SEEDS:
        try:
            _testing.emulate_program("leave_before_the_neighbour", seed)
        except EmulationError as error:
            messages.add(str(error))
    assert any("is gone: its block has ended" in message for message in messages)
