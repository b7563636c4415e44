# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Async mode: the copy in the graph, the GEMM outside it, the host in between."""

import contextlib
import resource
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from simulated import (
    ALLOCATING,
    COPY,
    MANY_GROUPS,
    MORE_THAN_ALL_SLOTS,
    TICKET,
    TICKET_HEADER_BYTES,
    Copies,
    Gemm,
    Operands,
    copy_call,
    gemm_call,
)

from graphsafe_gg import _testing

COPY_NODES = [0, 1, 7]  # kernel, memcpy, event record


def test_async_mode_copy_has_the_trait_and_the_gemm_has_not():
    assert _testing.is_capturable(COPY)
    assert _testing.is_capturable(TICKET)
    assert not _testing.is_capturable("graphsafe_gg_grouped_gemm_async_v2")
    assert not _testing.is_capturable("graphsafe_gg_drhs_async_v2")


def test_async_mode_ticket_alone_is_one_kernel(sim):
    """No event record: legal in the body of a captured conditional or loop."""
    p = _testing.Program()
    sizes = p.param("int32", [3])
    ticket = copy_call(p, sizes, 3, storage="result", target=TICKET)
    executable = _testing.compile(sim.raw, p, context="none")
    counts = np.array([1, 2, 3], np.int32)
    for _ in range(3):
        got = executable.run(0, {sizes: sim.put(counts)})[ticket].read()
        assert got[TICKET_HEADER_BYTES:] == counts.tobytes()
    assert executable.node_types() == [[COPY_NODES[:1]]]
    assert _testing.device_stats(0)["slots"] == 0


def test_async_mode_copy_is_three_nodes(sim):
    gemm = Gemm(sim, "async").warm_up()
    assert gemm.executable.node_types() == [[COPY_NODES]]


def many_groups_gemm(sim, **options):
    return Gemm(sim, "async", operands=Operands(sim, g=MANY_GROUPS), **options)


def test_async_mode_copy_without_a_slot_has_the_same_nodes(sim):
    gemm = many_groups_gemm(sim)
    holder = Copies(sim, num_copies=MORE_THAN_ALL_SLOTS, g=MANY_GROUPS)
    holder.run()
    holder.run()
    for _ in range(4):
        gemm.check([0] * (MANY_GROUPS - 1) + [6])
    assert gemm.stats["fallbacks"] == {"no slot": 4}
    assert gemm.executable.node_types() == [[COPY_NODES]]


def test_async_mode_replays_follow_the_sizes(sim):
    gemm = Gemm(sim, "async").warm_up()
    rng = np.random.default_rng(0)
    for _ in range(50):
        gemm.check(rng.multinomial(6, [0.2, 0.3, 0.5]))
    assert gemm.stats["fallbacks"] == {}


def test_async_mode_gemm_is_called_at_each_step_and_the_copy_is_not(sim):
    gemm = Gemm(sim, "async").warm_up()
    params = gemm.params([1, 2, 3])
    gemm.executable.run(0, params)
    gemm.executable.run(0, params)
    before = gemm.counters
    gemm.executable.run(0, params)
    after = gemm.counters
    assert after["eager_calls"] == before["eager_calls"] + 1
    assert after["captured_calls"] == before["captured_calls"]


def test_async_mode_waits_once_a_step(sim):
    gemm = Gemm(sim, "async").warm_up()
    for _ in range(5):
        gemm.check([1, 2, 3])
    assert gemm.stats["host_waits"] == 7


def test_async_mode_makes_no_copy_of_its_own(sim):
    gemm = Gemm(sim, "async").warm_up()
    sim.clear_log()
    for _ in range(5):
        gemm.check([1, 2, 3])
    assert not sim.calls(stages={"execute-eager"}, functions={"cuMemcpyDtoHAsync"})


def test_async_mode_wait_ends_while_later_work_runs(sim):
    """The wait is for the copy, not for what stands between copy and GEMM."""
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes, out = p.param("int32", [o.g]), p.result("float32", [o.m, o.n])
    ticket = copy_call(p, sizes, o.g)
    p.kernel("gg_test_delay", [], [10_000])
    gemm_call(p, "async", [lhs, rhs, sizes, ticket], out)
    executable = _testing.compile(sim.raw, p)
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
    params[sizes] = sim.put(np.array([1, 2, 3], np.int32))
    for _ in range(3):
        sim.drain()
        executable.run(0, params)
        assert sim.advance(9_000) == 9_000


def test_async_mode_sizes_come_after_the_work_before_them(sim):
    gemm = Gemm(sim, "async", delay=40).warm_up()
    for sizes in ([6, 0, 0], [0, 0, 6], [0, 6, 0]):
        gemm.check(sizes)


def test_async_mode_allocates_in_initialize_alone(sim):
    Gemm(sim, "async").warm_up()
    assert {stage for _, stage in sim.calls(functions=ALLOCATING)} == {"initialize"}


def test_async_mode_initialize_twice_makes_one_slot(sim):
    gemm = Gemm(sim, "async", initializes_twice=True)
    gemm.check([1, 2, 3])
    assert gemm.stats["executions"] == 1  # the GEMM is not captured
    assert _testing.device_stats(0)["slots"] == 1


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([2, -1, 3], r"group_sizes\[1\] must be >= 0; got -1"),
        ([2, 2, 4], r"must be at most m = 6; got 8"),
    ],
)
def test_async_mode_bad_sizes_raise_before_any_launch(sim, sizes, message):
    gemm = Gemm(sim, "async").warm_up()
    sim.clear_log()
    with pytest.raises(_testing.ExecutionError, match=f"INVALID_ARGUMENT: .*{message}"):
        gemm.run(sizes)
    assert not sim.calls(stages={"execute-eager"}, functions={"cuLaunchKernel"})
    gemm.check([1, 2, 3])


def kernel_of(sim):
    launched = [
        detail
        for function, stage, *_, detail in sim.log()
        if function == "cuLaunchKernel" and stage == "execute-eager"
    ]
    return launched[-1]


def test_async_mode_host_sizes_choose_the_launch(sim):
    """Same program and operands: a large group gets another kernel."""
    m, k, n, g = 512, 8, 8, 4
    p = _testing.Program()
    lhs, rhs = p.param("bfloat16", [m, k]), p.param("bfloat16", [g, k, n])
    sizes, out = p.param("int32", [g]), p.result("bfloat16", [m, n])
    ticket = copy_call(p, sizes, g)
    gemm_call(p, "async", [lhs, rhs, sizes, ticket], out)
    executable = _testing.compile(sim.raw, p)
    params = {
        lhs: sim.put(np.zeros((m, k), ml_dtypes.bfloat16)),
        rhs: sim.put(np.zeros((g, k, n), ml_dtypes.bfloat16)),
    }
    kernels = []
    for counts in ([16, 16, 16, 16], [512, 0, 0, 0]):
        params[sizes] = sim.put(np.array(counts, np.int32))
        executable.run(0, params)
        kernels.append(kernel_of(sim))
    assert kernels[0] != kernels[1]


@contextlib.contextmanager
def gate_closed_at_most(sim, seconds):
    """A wait that nothing ends must not hang the test."""
    sim.close_gate()
    opener = threading.Timer(seconds, sim.open_gates)
    opener.start()
    try:
        yield
    finally:
        opener.cancel()
        sim.open_gates()


def test_async_mode_deadline_is_an_error_and_the_next_call_is_right(simulate):
    sim = simulate(steps_per_query=0, background=True)
    gemm = Gemm(sim, "async")
    _testing.set_wait_deadline(0.05)
    try:
        with (
            gate_closed_at_most(sim, 5),
            pytest.raises(_testing.ExecutionError, match="GG_WAIT_DEADLINE_S"),
        ):
            gemm.run([1, 2, 3])
    finally:
        _testing.set_wait_deadline(0.0)
    gemm.check([3, 2, 1])


def test_async_mode_long_wait_is_reported_once_by_name(simulate, capfd):
    sim = simulate(steps_per_query=0, background=True)
    _testing.name_call_site(4545, "layers_3/slow")
    gemm = Gemm(sim, "async", site=4545)
    _testing.set_wait_warning(0.01)
    try:
        with gate_closed_at_most(sim, 0.1):
            gemm.run([1, 2, 3])
        gemm.check([3, 2, 1])
    finally:
        _testing.set_wait_warning(60.0)
    err = capfd.readouterr().err
    assert err.count("s for group sizes at call site layers_3/slow;") == 1


def run_with(sim, **attributes):
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes, out = p.param("int32", [o.g]), p.result("float32", [o.m, o.n])
    inputs = [lhs, rhs, sizes]
    if attributes.get("operands") != 0:
        inputs.append(copy_call(p, sizes, o.g))
    gemm_call(p, "async", inputs, out, **attributes)
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
    params[sizes] = sim.put(np.array([1, 2, 3], np.int32))
    _testing.compile(sim.raw, p).run(0, params)


@pytest.mark.parametrize(
    ("code", "text"), [(1, "no ticket"), (2, "ticket not followed")]
)
def test_async_mode_counts_what_the_lowering_decided(sim, code, text):
    run_with(sim, fallback=code)
    stats = _testing.site_stats(0, 1)
    assert stats["fallbacks"] == {text: 1}
    assert stats["eager_calls"] == 1


def test_async_mode_names_a_missing_ticket(sim):
    with pytest.raises(_testing.ExecutionError, match="the ticket is missing"):
        run_with(sim, operands=0)


def test_async_mode_long_wait_burns_no_core(simulate):
    sim = simulate(steps_per_query=0, background=True)
    gemm = Gemm(sim, "async")
    begin = time.thread_time()
    with gate_closed_at_most(sim, 0.5):
        gemm.run([1, 2, 3])
        assert time.thread_time() - begin < 0.1


def test_async_mode_waits_are_added_up_and_the_longest_is_kept(simulate):
    sim = simulate(steps_per_query=0, background=True)
    gemm = Gemm(sim, "async")
    with gate_closed_at_most(sim, 0.05):
        gemm.run([1, 2, 3])
    long = gemm.stats
    gemm.check([3, 2, 1])
    both = gemm.stats
    assert long["host_wait_max_ns"] == long["host_wait_ns"] > 20e6
    assert both["host_wait_max_ns"] >= long["host_wait_max_ns"]
    assert both["host_wait_ns"] > long["host_wait_ns"]


def num_sleeps(gemm):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    gemm.run([1, 2, 3])
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before


def test_async_mode_short_wait_never_sleeps(sim):
    """A sleep costs more than what is waited for, here 100 looks at the event."""
    gemm = Gemm(sim, "async", delay=100)
    assert min(num_sleeps(gemm) for _ in range(5)) < 10


@pytest.mark.parametrize("context", ["none", "other"])
def test_async_mode_runs_under_any_current_context(simulate, context):
    sim = simulate(num_devices=2)
    Gemm(sim, "async", context=context).warm_up()


def test_async_mode_no_groups(sim):
    gemm = Gemm(sim, "async", operands=Operands(sim, g=0))
    for _ in range(3):
        gemm.check([])
