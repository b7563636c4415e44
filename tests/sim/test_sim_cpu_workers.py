# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks of a CPU product shared by the threads of a pool."""

import pytest

from graphsafe_gg import _testing


@pytest.mark.parametrize("num_threads", [0, 1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_cpu_workers_compute_each_block_once(count, num_threads):
    assert _testing.cpu_share_blocks(count, num_threads) == [1] * count


def test_cpu_workers_that_never_start_are_not_waited_for():
    """Threads of a pool that all make such a call run each other's work at no time."""
    times = _testing.cpu_share_blocks(100, 4, holds_back=True)
    assert times == [1] * 100


@pytest.mark.parametrize("num_threads", [1, 4])
@pytest.mark.parametrize("failing", [0, 99])
def test_cpu_workers_hand_an_error_to_the_caller(num_threads, failing):
    with pytest.raises(MemoryError):
        _testing.cpu_share_blocks(100, num_threads, failing=failing)


def test_cpu_workers_take_floating_point_modes_from_the_caller():
    """Else a block's bits would follow from the thread that computes it."""
    found = _testing.cpu_rounding_modes_of_blocks(50, 4)
    assert found == {_testing.ROUND_UP}
