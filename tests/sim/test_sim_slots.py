# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Slots: capped, recycled when nobody uses them, and never shared by two tickets."""

import contextlib
import threading

import numpy as np
import pytest
from simulated import (
    ALLOCATING,
    COPY,
    MANY_GROUPS,
    MORE_THAN_ALL_SLOTS,
    TICKET_HEADER_BYTES,
    Copies,
    Gemm,
    Operands,
    copy_call,
    gemm_call,
    ticket_bytes,
)

from graphsafe_gg import _testing

COPY_CALL = "cuMemcpyDtoHAsync"


def test_slots_pinned_memory_is_capped(sim):
    copies = Copies(sim, num_copies=4 * MORE_THAN_ALL_SLOTS, g=MANY_GROUPS)
    for _ in range(3):
        copies.run()
    assert _testing.device_stats(0)["slot_bytes"] <= 512 << 10


def test_slots_group_counts_share_the_cap(sim):
    """K27: g cycling through 1..512 leaves pinned memory flat."""
    for g in range(1, 513):
        Copies(sim, num_copies=1, g=g).run()
    peak = sim.live_counts()["pinned_bytes"]
    for g in range(1, 513, 7):
        Copies(sim, num_copies=2, g=g).run()
    assert sim.live_counts()["pinned_bytes"] == peak <= 1 << 20


def test_slots_are_recycled_when_no_graph_holds_them(sim):
    """Eager copies at ever new addresses: each finds a slot, past the cap as well."""
    gemm = Gemm(
        sim, "async", operands=Operands(sim, g=MANY_GROUPS), command_buffers=False
    )
    sizes = [0] * (MANY_GROUPS - 1) + [6]
    fillers = []
    for _ in range(2 * MORE_THAN_ALL_SLOTS):
        fillers.append(sim.buffer(0, ticket_bytes(MANY_GROUPS)))
        gemm.check(sizes)
    assert gemm.stats["fallbacks"] == {}


def test_slots_held_by_a_graph_are_not_recycled(sim):
    gemm = Gemm(sim, "async", operands=Operands(sim, g=MANY_GROUPS))
    sizes = [0] * (MANY_GROUPS - 1) + [6]
    holder = Copies(sim, num_copies=MORE_THAN_ALL_SLOTS, g=MANY_GROUPS)
    holder.run()
    holder.run()
    sim.drain()
    gemm.check(sizes)
    assert gemm.stats["fallbacks"] == {"no slot": 1}


def test_slots_that_cannot_be_made_cost_nothing(sim):
    """Events that fail leave the slots' memory to later tickets."""
    copies = Copies(sim, num_copies=1, g=MANY_GROUPS)
    sim.inject("cuEventCreate", 999, stage="initialize", nth=2, count=100)
    for _ in range(100):
        with pytest.raises(_testing.ExecutionError, match="cuEventCreate"):
            copies.run()
    copies.run()
    assert _testing.device_stats(0)["slot_bytes"] == 64 << 10


def test_slots_past_the_cap_cost_no_call_in_steady_state(sim):
    copies = Copies(sim, num_copies=2 * MORE_THAN_ALL_SLOTS, g=MANY_GROUPS)
    for _ in range(3):
        copies.run()
    sim.clear_log()
    copies.run()
    assert not sim.calls(functions=ALLOCATING)


def test_slots_are_free_when_their_graph_is_gone(sim):
    gemm = Gemm(sim, "async", operands=Operands(sim, g=MANY_GROUPS))
    sizes = [0] * (MANY_GROUPS - 1) + [6]
    holder = Copies(sim, num_copies=MORE_THAN_ALL_SLOTS, g=MANY_GROUPS)
    holder.run()
    holder.run()
    holder.executable.evict()
    sim.drain()
    gemm.check(sizes)
    assert gemm.stats["fallbacks"] == {}


def copy_targets(sim):
    """Host addresses that copies were queued to since the log was cleared."""
    return [detail for function, *_, detail in sim.log() if function == COPY_CALL]


def test_slots_of_pending_copies_are_not_recycled(simulate):
    """Copies in flight keep their slots, though their program is gone."""
    sim = simulate(steps_per_query=0)
    copies = Copies(sim, num_copies=60, g=MANY_GROUPS, command_buffers=False)
    sim.close_gate()
    copies.run()
    pending = copy_targets(sim)
    del copies
    sim.clear_log()
    other = Copies(sim, num_copies=60, g=MANY_GROUPS, command_buffers=False)
    held = sim.buffer(0, 60 * 8192)  # so that the tickets lie elsewhere
    other.run()
    assert len(pending) == len(set(pending)) == 60
    assert not set(pending) & set(copy_targets(sim))
    sim.open_gates()
    del held


def test_slots_recycled_are_lost_to_their_old_ticket(sim):
    """The copy that runs again at the old ticket's address gets another slot."""
    first = Copies(sim, num_copies=1, g=MANY_GROUPS, command_buffers=False)
    others = Copies(sim, num_copies=63, g=MANY_GROUPS, command_buffers=False)
    first.run()
    others.run()
    sim.drain()
    more = Copies(sim, num_copies=64, g=MANY_GROUPS, command_buffers=False)
    more.run()
    sim.drain()
    sim.close_gate()
    sim.clear_log()
    first.run()
    pending = copy_targets(sim)
    sim.clear_log()
    more.run()
    assert not set(pending) & set(copy_targets(sim))
    sim.open_gates()


def test_slots_of_another_size_are_not_recycled(sim):
    """Idle slots that are too small, or too large, serve nobody else."""
    Copies(sim, num_copies=64, g=MANY_GROUPS, command_buffers=False).run()
    sim.drain()
    for site, g in enumerate((MANY_GROUPS - 20, MANY_GROUPS + 20)):
        gemm = Gemm(sim, "async", site=site, operands=Operands(sim, g=g))
        gemm.check([0] * (g - 1) + [6])
        assert gemm.stats["fallbacks"] == {"no slot": 1}


def test_slots_recycled_in_one_run_are_not_taken_again(sim):
    """Both tickets of a program find idle slots, the second not that of the first."""
    Copies(sim, num_copies=64, g=MANY_GROUPS, command_buffers=False).run()
    sim.drain()
    o = Operands(sim, g=MANY_GROUPS)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
    for site in (1, 2):
        sizes, out = p.param("int32", [o.g]), p.result("float32", [o.m, o.n])
        inputs = [lhs, rhs, sizes, copy_call(p, sizes, o.g)]
        gemm_call(p, "async", inputs, out, site=site)
        params[sizes] = sim.put(np.eye(1, o.g, site, dtype=np.int32)[0])
    _testing.compile(sim.raw, p).run(0, params)
    assert [_testing.site_stats(0, site)["fallbacks"] for site in (1, 2)] == [{}, {}]


def test_slots_of_a_copy_without_its_event_are_not_recycled(simulate):
    """The copy is queued, and nothing tells when it is done."""
    sim = simulate(steps_per_query=0)
    first = Copies(sim, num_copies=1, g=MANY_GROUPS, command_buffers=False)
    first.run()
    sim.drain()
    sim.close_gate()
    sim.clear_log()
    sim.inject("cuEventRecordWithFlags", 999)
    with pytest.raises(_testing.ExecutionError, match="cuEventRecordWithFlags"):
        first.run()
    pending = copy_targets(sim)
    sim.clear_log()
    # So many that each idle slot is asked for.
    more = 2 * MORE_THAN_ALL_SLOTS
    Copies(sim, num_copies=more, g=MANY_GROUPS, command_buffers=False).run()
    assert not set(pending) & set(copy_targets(sim))
    sim.open_gates()


@contextlib.contextmanager
def stopped_at(sim, function, body):
    """Another thread that runs the body stands before the call meanwhile."""
    sim.pause(function, "execute-eager")
    thread = threading.Thread(target=body)
    thread.start()
    try:
        assert sim.wait_until_paused()
        yield
    finally:
        sim.resume()
        thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "call", ["cuLaunchKernel", COPY_CALL, "cuEventRecordWithFlags"]
)
def test_slots_in_use_by_a_copy_are_not_recycled(sim, call):
    """A handler that holds its slot keeps it, whatever of its copy is queued."""
    first = Copies(sim, num_copies=1, g=MANY_GROUPS, command_buffers=False)
    others = Copies(sim, num_copies=63, g=MANY_GROUPS, command_buffers=False)
    first.run()
    others.run()
    sim.drain()
    more = Copies(sim, num_copies=64, g=MANY_GROUPS, command_buffers=False)
    sim.clear_log()
    first.run()
    (own,) = copy_targets(sim)
    sim.drain()
    with stopped_at(sim, call, first.run):
        sim.clear_log()
        more.run()
        assert own not in copy_targets(sim)


def rewrite_while_read(sim, num_steps):
    """Reads a slot some steps after another copy to it began.

    The event is not recorded anew yet, so nothing makes the reader wait.
    """
    g, m = 64, 32
    old, new = np.zeros(g, np.int32), np.zeros(g, np.int32)
    old[:m], new[-m:] = 1, 1  # a mixture of the two has another sum
    o = Operands(sim, m=m, g=g)
    p = _testing.Program()
    sizes, ticket = p.param("int32", [g]), p.param("uint8", [ticket_bytes(g)])
    p.call(COPY, [sizes], [p.result("uint8", [ticket_bytes(g)], donated=ticket)])
    maker = _testing.compile(sim.raw, p, command_buffers=False)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [g, o.k, o.n])
    used_sizes, used = p.param("int32", [g]), p.param("uint8", [ticket_bytes(g)])
    out = p.result("float32", [o.m, o.n])
    gemm_call(p, "async", [lhs, rhs, used_sizes, used], out, site=8)
    user = _testing.compile(sim.raw, p, command_buffers=False)
    buffer = sim.buffer(0, ticket_bytes(g))
    maker.run(0, {sizes: sim.put(old), ticket: buffer})
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer, used: buffer}
    params[used_sizes] = sim.put(old)
    arguments = {sizes: sim.put(new), ticket: buffer}
    sim.drain()
    with stopped_at(sim, "cuEventRecordWithFlags", lambda: maker.run(0, arguments)):
        while buffer.peek()[TICKET_HEADER_BYTES:] == old.tobytes():
            assert sim.advance(1)
        sim.advance(num_steps)
        user.run(0, params)
    return list(_testing.site_stats(0, 8)["fallbacks"])


@pytest.mark.parametrize("num_steps", [1, 2, 4])
def test_slots_rewritten_while_they_are_read_are_noticed(simulate, num_steps):
    sim = simulate(jitter=50, seed=num_steps)
    assert rewrite_while_read(sim, num_steps) == ["slot rewritten"]


def test_slots_survive_the_program_with_copies_in_flight(sim):
    """P-085: K27, nothing is freed or reused under a pending copy."""
    gemm = Gemm(sim, "async").warm_up()
    copies = Copies(sim, num_copies=3, g=3)
    for _ in range(3):
        copies.run()
    sim.close_gate()
    copies.run()
    pinned = sim.live_counts()["pinned"]
    del copies
    assert sim.live_counts()["pinned"] == pinned
    sim.open_gates()
    gemm.check([1, 2, 3])


def test_memory_stays_flat_over_recompilations(sim):
    """P-084: K27, programs come and go, pinned memory and events stay."""
    operands = Operands(sim)

    def turn():
        gemm = Gemm(sim, "async", operands=operands)
        for _ in range(3):
            gemm.check([1, 2, 3])

    for _ in range(20):
        turn()
    sim.drain()
    before = sim.live_counts()
    for _ in range(100):
        turn()
    sim.drain()
    after = sim.live_counts()
    for name in ("pinned", "pinned_bytes", "events", "user_objects", "graphs"):
        assert after[name] == before[name]
