# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The executor lives through a program's life as XLA does."""

import numpy as np
import pytest
from simulated import Gemm, Operands, gemm_call, loop

from graphsafe_gg import _testing


def launches(sim, stage):
    return len(sim.calls(stages={stage}, functions={"cuLaunchKernel"}))


def test_executor_first_run_is_eager(sim):
    gemm = Gemm(sim)
    gemm.check([1, 2, 3])
    assert (gemm.counters["eager_calls"], gemm.counters["graph_launches"]) == (1, 0)


def test_executor_second_run_captures_before_any_thunk(sim):
    gemm = Gemm(sim)
    gemm.check([1, 2, 3])
    sim.clear_log()
    gemm.check([3, 2, 1])
    names = [name for name, *_ in sim.log()]
    # Outside the capture only results' poison goes ahead of it.
    assert names.index("cuStreamBeginCapture") < names.index("cuGraphLaunch")
    assert launches(sim, "execute-capture") == 1
    assert launches(sim, "execute-eager") == 0


def test_executor_replay_calls_no_execute(sim):
    gemm = Gemm(sim).warm_up()
    params = gemm.params([1, 1, 1])
    first = gemm.executable.run(0, params)
    gemm.executable.run(0, params)
    del first
    before = gemm.counters
    sim.clear_log()
    gemm.executable.run(0, params)
    assert gemm.counters["captured_calls"] == before["captured_calls"]
    assert gemm.counters["graph_launches"] == before["graph_launches"] + 1
    assert not sim.calls(stages={"execute-eager", "execute-capture"})


def test_executor_initialize_runs_at_every_execution(sim):
    gemm = Gemm(sim).warm_up()
    gemm.check([0, 0, 6])
    assert gemm.stats["executions"] == 3


def test_executor_initialize_runs_twice_for_captured_calls_if_asked(sim):
    gemm = Gemm(sim, initializes_twice=True).warm_up()
    assert gemm.stats["executions"] == 4


def two_gemms(sim, **options):
    """Two products of one program on separate sizes; returns run(sizes, sizes)."""
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes = [p.param("int32", [o.g]) for _ in range(2)]
    outs = [p.temp("float32", [o.m, o.n]) for _ in range(2)]
    for index, (size, out) in enumerate(zip(sizes, outs, strict=True)):
        gemm_call(p, "device", [lhs, rhs, size], out, site=index)
    executable = _testing.compile(sim.raw, p, **options)

    def run(first, second):
        executable.run(
            0, {lhs: o.lhs_buffer, rhs: o.rhs_buffer, sizes[0]: first, sizes[1]: second}
        )

    return executable, run


def test_executor_changed_address_recaptures_that_call_only(sim):
    executable, run = two_gemms(sim)
    first, second = (sim.put(np.array([1, 2, 3], np.int32)) for _ in range(2))
    run(first, second)
    run(first, second)
    before = executable.counters()
    run(first, sim.put(np.array([3, 2, 1], np.int32)))
    after = executable.counters()
    assert after["captures"] == before["captures"] + 1
    assert after["updates"] == before["updates"] + 1


def test_executor_trace_cache_spares_a_capture(sim):
    executable, run = two_gemms(sim)
    a, b, c = (sim.put(np.array([1, 2, 3], np.int32)) for _ in range(3))
    run(a, b)
    run(a, b)
    run(a, c)
    before = executable.counters()
    run(a, b)
    after = executable.counters()
    assert after["captures"] == before["captures"]
    assert after["updates"] == before["updates"] + 1


def test_executor_trace_cache_forgets_the_oldest(sim):
    executable, run = two_gemms(sim, trace_cache_size=2)
    a, *others = (sim.put(np.array([1, 2, 3], np.int32)) for _ in range(4))
    run(a, others[0])
    for other in others:
        run(a, other)
    before = executable.counters()["captures"]
    run(a, others[0])
    assert executable.counters()["captures"] == before + 1


def test_executor_eviction_runs_eagerly_then_captures_anew(sim):
    gemm = Gemm(sim).warm_up()
    sim.evict_all()
    before = gemm.counters
    gemm.check([2, 0, 1])
    assert gemm.counters["eager_calls"] == before["eager_calls"] + 1
    gemm.check([0, 1, 2])
    assert gemm.counters["captured_calls"] == before["captured_calls"] + 1


def test_executor_new_program_evicts_the_others(sim):
    gemm = Gemm(sim).warm_up()
    other = Gemm(sim, site=2, operands=gemm.operands)
    before = gemm.counters["eager_calls"]
    gemm.check([2, 0, 1])
    other.check([2, 0, 1])
    assert gemm.counters["eager_calls"] == before + 1


def test_executor_short_runs_stay_eager(sim):
    gemm = Gemm(sim, min_graph_size=2).warm_up()
    assert (gemm.counters["eager_calls"], gemm.counters["graph_launches"]) == (2, 0)


def test_executor_call_without_the_trait_splits_the_graph(sim):
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes = p.param("int32", [o.g])
    for mode in ("device", "sync", "device"):
        gemm_call(p, mode, [lhs, rhs, sizes], p.temp("float32", [o.m, o.n]))
    executable = _testing.compile(sim.raw, p)
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
    params[sizes] = sim.put(np.array([1, 2, 3], np.int32))
    executable.run(0, params)
    executable.run(0, params)
    assert executable.counters()["graph_launches"] == 2
    assert executable.counters()["eager_calls"] == 4


def looped_gemm(sim, num_iterations, trace_cache_size=16):
    """One product in a loop over stacked weights, which move at each turn."""
    o = Operands(sim, g=3)
    p = _testing.Program()
    lhs, sizes = p.param("float32", [o.m, o.k]), p.param("int32", [o.g])
    stack = p.param("float32", [num_iterations, o.g, o.k, o.n])
    outs = p.result("float32", [num_iterations, o.m, o.n])
    rhs = p.slice(stack, "float32", [o.g, o.k, o.n])
    out = p.slice(outs, "float32", [o.m, o.n])
    with loop(p, num_iterations):
        gemm_call(p, "device", [lhs, rhs, sizes], out)
    executable = _testing.compile(sim.raw, p, trace_cache_size=trace_cache_size)
    weights = np.random.default_rng(1).standard_normal(
        (num_iterations, o.g, o.k, o.n), np.float32
    )
    params = {lhs: o.lhs_buffer, stack: sim.put(weights)}

    def check(counts):
        params[sizes] = sim.put(np.asarray(counts, np.int32))
        got = executable.run(0, params)[outs].read()
        got = np.frombuffer(got, np.float32).reshape(num_iterations, o.m, o.n)
        for layer in range(num_iterations):
            o.rhs = weights[layer]
            np.testing.assert_allclose(got[layer], o.expected(counts), 1e-5, 1e-6)

    return executable, check


def test_executor_loop_captures_in_its_second_turn(sim):
    executable, check = looped_gemm(sim, 4)
    check([1, 2, 3])
    counters = executable.counters()
    assert (counters["eager_calls"], counters["graph_launches"]) == (1, 3)


@pytest.mark.parametrize(("num_layers", "captures"), [(4, 0), (24, 24)])
def test_executor_loop_over_stacked_weights_recaptures_past_the_cache(
    sim, num_layers, captures
):
    executable, check = looped_gemm(sim, num_layers)
    check([1, 2, 3])
    executable_params = executable.counters()["captures"]
    assert executable_params == num_layers - 1
    # The same buffers again: what is captured now is captured at each step to come.
    check([1, 2, 3])
    check([1, 2, 3])
    before = executable.counters()["captures"]
    check([1, 2, 3])
    grown = executable.counters()["captures"] - before
    assert grown == captures


def test_executor_freed_address_is_handed_out_at_once(sim):
    first = sim.buffer(0, 100)
    address = first.address
    del first
    assert sim.buffer(0, 50).address == address


def test_executor_result_kept_by_the_caller_keeps_its_address(sim):
    gemm = Gemm(sim)
    kept = [gemm.run([i, 0, 0]) for i in range(5)]
    assert len({buffer.address for buffer in kept}) == 5
    for i, buffer in enumerate(kept):
        np.testing.assert_allclose(
            gemm.operands.read(buffer), gemm.operands.expected([i, 0, 0]), 1e-5, 1e-6
        )


def bad_call(sim, target, **options):
    p = _testing.Program()
    x = p.param("int32", [64])
    p.call(target, [x], [p.temp("int32", [64])])
    executable = _testing.compile(sim.raw, p, **options)
    params = {x: sim.put(np.zeros(64, np.int32))}
    return lambda: executable.run(0, params)


def test_executor_wait_in_capture_breaks_the_executable(sim):
    sim.allowed_leaks.add("events")
    run = bad_call(sim, "test_wait_in_capture")
    run()
    with pytest.raises(_testing.ExecutionError, match="CAPTURED_EVENT"):
        run()
    with pytest.raises(
        _testing.ExecutionError, match="Recorded commands are not empty"
    ):
        run()


def test_executor_silent_failure_shows_at_the_end_of_the_capture(sim):
    run = bad_call(sim, "test_wait_silently")
    run()
    with pytest.raises(
        _testing.ExecutionError,
        match="Failed to end stream capture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
    ):
        run()


def test_executor_other_nodes_at_another_trace_are_reported(sim):
    sim.allowed_leaks.add("pinned")
    p = _testing.Program()
    x = p.param("int32", [64])
    p.call("test_change_topology", [x], [p.temp("int32", [64])])
    executable = _testing.compile(sim.raw, p)
    buffers = [sim.put(np.zeros(64, np.int32)) for _ in range(2)]
    executable.run(0, {x: buffers[0]})
    executable.run(0, {x: buffers[0]})
    with pytest.raises(_testing.ExecutionError, match="had other nodes"):
        executable.run(0, {x: buffers[1]})


def test_executor_context_left_behind_is_reported(simulate):
    sim = simulate(num_devices=2)
    sim.expected_violations.append("test_change_context left another context")
    p = _testing.Program()
    p.call("test_change_context", [], [])
    _testing.compile(sim.raw, p).run(0, {})


def test_executor_unknown_target_is_refused(sim):
    p = _testing.Program()
    p.call("no_such_target", [], [])
    with pytest.raises(_testing.ExecutionError, match="NOT_FOUND"):
        _testing.compile(sim.raw, p)
