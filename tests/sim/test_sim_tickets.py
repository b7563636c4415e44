# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Tickets that XLA moves, slots that run out: never another step's sizes."""

import numpy as np
import pytest
from simulated import (
    COPY,
    MANY_GROUPS,
    MORE_THAN_ALL_SLOTS,
    Copies,
    Gemm,
    Operands,
    copy_call,
    gemm_call,
    loop,
    route,
    ticket_bytes,
)

from graphsafe_gg import _testing

COPY_CALL = "cuMemcpyDtoHAsync"


class Prefetch:
    """A loop whose turns use sizes that the turn before drew and copied.

    XLA keeps the carried ticket at one address and copies the body's ticket there, so
    the slot of that address holds the sizes of the first turn for good.
    """

    def __init__(self, sim, num_turns, **options):
        self.operands = o = Operands(sim)
        self.sim, self.num_turns, self.site = sim, num_turns, 3
        p = _testing.Program()
        self.lhs = p.param("float32", [o.m, o.k])
        self.rhs = p.param("float32", [o.g, o.k, o.n])
        self.state = p.param("uint64", [1])
        self.outs = p.result("float32", [num_turns, o.m, o.n])
        out = p.slice(self.outs, "float32", [o.m, o.n])
        sizes, next_sizes = (p.temp("int32", [o.g]) for _ in range(2))
        p.kernel("gg_test_route", [self.state, sizes], [o.g, o.m])
        ticket = copy_call(p, sizes, o.g)
        with loop(p, num_turns):
            p.kernel("gg_test_route", [self.state, next_sizes], [o.g, o.m])
            next_ticket = copy_call(p, next_sizes, o.g)
            gemm_call(p, "async", [self.lhs, self.rhs, sizes, ticket], out, site=3)
            p.copy(next_sizes, sizes)
            p.copy(next_ticket, ticket)
        self.executable = _testing.compile(sim.raw, p, **options)

    def check(self, seed):
        o = self.operands
        state = self.sim.put(np.array([seed], np.uint64))
        params = {self.lhs: o.lhs_buffer, self.rhs: o.rhs_buffer, self.state: state}
        got = self.executable.run(0, params)[self.outs].read()
        got = np.frombuffer(got, np.float32).reshape(self.num_turns, o.m, o.n)
        for turn in range(self.num_turns):
            seed, sizes = route(seed, o.g, o.m)
            np.testing.assert_allclose(got[turn], o.expected(sizes), 1e-5, 1e-6)


def test_tickets_prefetched_in_a_loop_serve_no_stale_sizes(sim):
    prefetch = Prefetch(sim, 5)
    for seed in range(6):
        prefetch.check(seed)


def moved_ticket(sim, *, sink_first=False):
    """A ticket copied to another address before its GEMM."""
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes, out = p.param("int32", [o.g]), p.result("float32", [o.m, o.n])
    ticket = copy_call(p, sizes, o.g)
    moved = p.temp("uint8", [ticket_bytes(o.g)])
    p.copy(ticket, moved)
    gemm_call(p, "async", [lhs, rhs, sizes, moved], out)
    executable = _testing.compile(sim.raw, p)

    def check(counts):
        params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
        params[sizes] = sim.put(np.array(counts, np.int32))
        got = np.frombuffer(executable.run(0, params)[out].read(), np.float32)
        np.testing.assert_allclose(
            got.reshape(o.m, o.n), o.expected(counts), 1e-5, 1e-6
        )

    return check


def test_tickets_copied_elsewhere_fall_back_and_are_right(sim):
    check = moved_ticket(sim)
    for counts in ([1, 2, 3], [6, 0, 0], [0, 0, 6]):
        check(counts)
    assert _testing.site_stats(0, 1)["fallbacks"] == {"no slot": 3}


class Foreign:
    """One program makes the ticket, another uses it as an argument."""

    def __init__(self, sim):
        self.sim, self.operands = sim, Operands(sim)
        o = self.operands
        p = _testing.Program()
        self.copied = p.param("int32", [o.g])
        self.ticket = p.result("uint8", [ticket_bytes(o.g)])
        p.call(COPY, [self.copied], [self.ticket])
        self.maker = _testing.compile(sim.raw, p)
        p = _testing.Program()
        self.lhs = p.param("float32", [o.m, o.k])
        self.rhs = p.param("float32", [o.g, o.k, o.n])
        self.sizes = p.param("int32", [o.g])
        self.used = p.param("uint8", [ticket_bytes(o.g)])
        self.out = p.result("float32", [o.m, o.n])
        gemm_call(
            p, "async", [self.lhs, self.rhs, self.sizes, self.used], self.out, site=8
        )
        self.user = _testing.compile(sim.raw, p)

    def make(self, counts):
        sizes = self.sim.put(np.array(counts, np.int32))
        return self.maker.run(0, {self.copied: sizes})[self.ticket]

    def use(self, ticket, counts):
        o = self.operands
        params = {self.lhs: o.lhs_buffer, self.rhs: o.rhs_buffer, self.used: ticket}
        params[self.sizes] = self.sim.put(np.array(counts, np.int32))
        got = np.frombuffer(self.user.run(0, params)[self.out].read(), np.float32)
        np.testing.assert_allclose(
            got.reshape(o.m, o.n), o.expected(counts), 1e-5, 1e-6
        )


def test_tickets_of_another_program_serve_that_programs_sizes(sim):
    foreign = Foreign(sim)
    for counts in ([1, 2, 3], [0, 6, 0], [3, 2, 1]):
        foreign.use(foreign.make(counts), counts)
    assert _testing.site_stats(0, 8)["fallbacks"] == {}


def test_tickets_whose_maker_ran_again_are_told_apart_by_address(sim):
    foreign = Foreign(sim)
    first = foreign.make([1, 2, 3])
    second = foreign.make([3, 2, 1])
    foreign.use(first, [1, 2, 3])
    foreign.use(second, [3, 2, 1])


def test_tickets_stale_bad_sizes_never_fail_a_good_call(sim):
    """A slot that holds another step's bad sizes must not raise for good ones."""
    foreign = Foreign(sim)
    ticket = foreign.make([9, 9, 9])
    foreign.use(ticket, [1, 2, 3])
    stats = _testing.site_stats(0, 8)
    assert stats["fallbacks"] == {"copied sizes suspect": 1}


def test_tickets_stale_good_sizes_leave_bad_ones_cut(sim):
    """Sizes of another step look good; the device's are bad: cut and recorded."""
    foreign = Foreign(sim)
    ticket = foreign.make([1, 2, 3])
    foreign.use(ticket, [9, 9, 9])
    assert "must be at most m = 6" in _testing.size_error(0, 8)


def test_tickets_of_fewer_sizes_are_not_read_past_their_end(sim):
    """Three and four bytes of sizes have tickets of one length, and one slot."""
    o = Operands(sim, g=4)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    three, four = p.param("int8", [3]), p.param("int8", [4])
    out = p.result("float32", [o.m, o.n])
    ticket = copy_call(p, three, 3, size_bytes=1)
    gemm_call(p, "async", [lhs, rhs, four, ticket], out)
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
    params[three] = sim.put(np.array([1, 2, 3], np.int8))
    params[four] = sim.put(np.array([0, 1, 2, 3], np.int8))
    got = _testing.compile(sim.raw, p).run(0, params)[out]
    np.testing.assert_allclose(o.read(got), o.expected([0, 1, 2, 3]), 1e-5, 1e-6)
    assert _testing.site_stats(0, 1)["fallbacks"] == {"slot rewritten": 1}


def test_tickets_never_copied_fall_back(sim):
    """An address that has a slot, whose copy has not run in this life."""
    foreign = Foreign(sim)
    ticket = sim.buffer(0, ticket_bytes(3))
    foreign.use(ticket, [1, 2, 3])
    assert _testing.site_stats(0, 8)["fallbacks"] == {"no slot": 1}


def test_tickets_stamps_count_copies_on_the_device(sim):
    gemm = Gemm(sim, "async").warm_up()
    for _ in range(5):
        gemm.check([1, 2, 3])
    assert sim.device_word(0, "gg_num_copies") == 7
    assert _testing.device_stats(0)["copies"] == 7


def test_tickets_of_two_devices_never_bear_one_stamp(simulate):
    """A ticket that was copied to another device matches no slot there."""
    sim = simulate(num_devices=2)
    p = _testing.Program()
    sizes, ticket = p.param("int32", [3]), p.result("uint8", [ticket_bytes(3)])
    p.call(COPY, [sizes], [ticket])
    executable = _testing.compile(sim.raw, p)
    stamps = []
    for device in (0, 1):
        params = {sizes: sim.put(np.array([1, 2, 3], np.int32), device)}
        for _ in range(3):
            header = executable.run(device, params)[ticket].read()
            stamps.append(int.from_bytes(header[:8], "little"))
        assert _testing.device_stats(device)["copies"] == 3
    assert len(set(stamps)) == 6


def test_tickets_copies_count_also_without_a_slot(sim):
    copies = Copies(sim, num_copies=4, g=MANY_GROUPS)
    holder = Copies(sim, num_copies=MORE_THAN_ALL_SLOTS, g=MANY_GROUPS)
    holder.run()
    holder.run()
    copies.run()
    sim.drain()
    assert _testing.device_stats(0)["copies"] == 2 * MORE_THAN_ALL_SLOTS + 4


@pytest.mark.parametrize("seed", range(4))
def test_tickets_torn_slots_are_noticed(simulate, seed):
    """A slot rewritten while it is read gives its own copy, never a mixture."""
    sim = simulate(background=True, jitter=3, seed=seed)
    foreign = Foreign(sim)
    ticket = foreign.make([1, 2, 3])
    for turn in range(30):
        counts = [turn % 4, 1, 6 - turn % 4 - 1]
        del ticket
        ticket = foreign.make(counts)
        foreign.make([6, 0, 0])
        foreign.use(ticket, counts)
