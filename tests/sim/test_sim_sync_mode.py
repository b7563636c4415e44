# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Sync mode through its real handlers: waits for its sizes, never captured."""

import numpy as np
import pytest
from simulated import ALLOCATING, MANY_GROUPS, Gemm, Operands

from graphsafe_gg import _testing


@pytest.mark.parametrize("product", ["grouped_gemm", "drhs"])
def test_sync_mode_has_no_trait(product):
    assert not _testing.is_capturable(f"graphsafe_gg_{product}_sync_v2")


def test_sync_mode_is_never_captured(sim):
    gemm = Gemm(sim, "sync").warm_up()
    gemm.check([6, 0, 0])
    assert gemm.counters["captured_calls"] == 0
    assert not sim.calls(stages={"execute-capture"})


def test_sync_mode_waits_once_a_call(sim):
    gemm = Gemm(sim, "sync").warm_up()
    assert gemm.stats["host_waits"] == 2


def test_sync_mode_no_groups_are_neither_copied_nor_waited_for(sim):
    gemm = Gemm(sim, "sync", operands=Operands(sim, g=0))
    gemm.check([])
    assert gemm.stats["host_waits"] == 0
    assert not sim.calls(functions={"cuMemcpyDtoHAsync"})


def test_sync_mode_larger_sizes_are_reserved_for_in_initialize(sim):
    """The first program's buffer is too small for the second's sizes."""
    for g in (3, MANY_GROUPS):
        gemm = Gemm(sim, "sync", operands=Operands(sim, g=g))
        gemm.check([0] * (g - 1) + [6])
    assert {stage for _, stage in sim.calls(functions=ALLOCATING)} == {"initialize"}
    assert _testing.device_stats(0)["copy_bytes"] == 4096 + 8192


def test_sync_mode_reads_sizes_after_the_work_before_them(sim):
    """The sizes arrive behind a long kernel; the host must not read what was there."""
    gemm = Gemm(sim, "sync", delay=50)
    for sizes in ([1, 2, 3], [6, 0, 0], [0, 0, 6]):
        gemm.check(sizes)


@pytest.mark.parametrize("jitter", [0, 3])
def test_sync_mode_copy_in_parts_is_read_whole(simulate, jitter):
    sim = simulate(jitter=jitter, seed=jitter)
    gemm = Gemm(sim, "sync", operands=Operands(sim, m=64, g=32))
    rng = np.random.default_rng(0)
    for _ in range(10):
        sizes = rng.multinomial(64, np.full(32, 1 / 32))
        gemm.check(sizes)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([2, -1, 3], r"group_sizes\[1\] must be >= 0; got -1"),
        ([2, 2, 4], r"must be at most m = 6; got 8"),
    ],
)
def test_sync_mode_bad_sizes_raise_before_any_launch(sim, sizes, message):
    gemm = Gemm(sim, "sync")
    with pytest.raises(_testing.ExecutionError, match=message):
        gemm.check(sizes)
    assert not sim.calls(functions={"cuLaunchKernel"})


def test_sync_mode_next_call_after_bad_sizes_is_right(sim):
    gemm = Gemm(sim, "sync")
    with pytest.raises(_testing.ExecutionError):
        gemm.check([0, -1, 0])
    gemm.check([1, 2, 3])


def test_sync_mode_allocates_in_initialize_alone(sim):
    Gemm(sim, "sync").warm_up()
    assert {stage for _, stage in sim.calls(functions=ALLOCATING)} == {"initialize"}


def test_sync_mode_bad_sizes_leak_nothing(sim):
    """P-086: K27, the error path returns its buffers."""
    gemm = Gemm(sim, "sync")
    gemm.check([1, 2, 3])
    before = sim.live_counts()
    for _ in range(1000):
        with pytest.raises(_testing.ExecutionError):
            gemm.run([0, -1, 0])
    after = sim.live_counts()
    for name in ("events", "pinned", "pinned_bytes", "user_objects"):
        assert after[name] == before[name]


def test_sync_mode_copy_failure_leaks_nothing(sim):
    sim.allowed_leaks |= {"events", "pinned"}
    gemm = Gemm(sim, "sync")
    gemm.check([1, 2, 3])
    copy_bytes = _testing.device_stats(0)["copy_bytes"]
    before = sim.live_counts()
    sim.inject("cuMemcpyDtoHAsync", 719, stage="execute-eager")
    with pytest.raises(_testing.ExecutionError, match="cuMemcpyDtoHAsync failed"):
        gemm.run([1, 2, 3])
    gemm.check([3, 2, 1])
    assert sim.live_counts()["pinned"] == before["pinned"]
    assert _testing.device_stats(0)["copy_bytes"] == copy_bytes


def test_sync_mode_buffer_of_a_pending_copy_is_not_used_again(simulate):
    """A wait that ended early leaves a copy on its way: two such, two buffers."""
    sim = simulate(steps_per_query=0, background=True)
    gemm = Gemm(sim, "sync")
    gemm.check([1, 2, 3])
    one_buffer = _testing.device_stats(0)["copy_bytes"]
    _testing.set_wait_deadline(0.01)
    sim.close_gate()
    try:
        for _ in range(2):
            with pytest.raises(_testing.ExecutionError, match="GG_WAIT_DEADLINE_S"):
                gemm.run([1, 2, 3])
        assert _testing.device_stats(0)["copy_bytes"] == 2 * one_buffer
    finally:
        _testing.set_wait_deadline(0.0)
        sim.open_gates()
    sim.drain()
    for sizes in ([3, 2, 1], [0, 6, 0], [2, 2, 2]):
        gemm.check(sizes)
    assert _testing.device_stats(0)["copy_bytes"] == 2 * one_buffer


def test_sync_mode_buffer_without_any_event_is_never_used_again(simulate):
    """Neither the call nor its clean-up could record one: the copy may be pending."""
    sim = simulate(steps_per_query=0, background=True)
    gemm = Gemm(sim, "sync")
    gemm.check([1, 2, 3])
    sim.close_gate()
    sim.clear_log()
    sim.inject("cuEventRecord", 999, count=2)
    with pytest.raises(_testing.ExecutionError, match="cuEventRecord"):
        gemm.run([1, 2, 3])
    sim.open_gates()
    gemm.check([3, 2, 1])
    copies = [
        detail for function, *_, detail in sim.log() if function == "cuMemcpyDtoHAsync"
    ]
    assert len(copies) == len(set(copies)) == 2


@pytest.mark.parametrize("context", ["none", "other"])
def test_sync_mode_runs_under_any_current_context(simulate, context):
    sim = simulate(num_devices=2)
    Gemm(sim, "sync", context=context).warm_up()


def test_sync_mode_group_counts_share_pinned_memory(sim):
    """K27: g cycling leaves pinned memory flat."""
    gemms = [Gemm(sim, "sync", operands=Operands(sim, m=8, g=g)) for g in range(1, 40)]
    for gemm in gemms:
        gemm.check([0] * gemm.operands.g)
    pinned = sim.live_counts()["pinned_bytes"]
    for gemm in gemms * 2:
        gemm.check([0] * gemm.operands.g)
    assert sim.live_counts()["pinned_bytes"] == pinned
