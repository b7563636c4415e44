# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Cases of kinds K19 to K24 and K27, as far as host code decides them."""

import numpy as np
import pytest
from simulated import (
    ALLOCATING,
    DRHS,
    WAITING,
    Gemm,
    Operands,
    copy_call,
    expected_drhs,
    gemm_call,
    product_attributes,
)

from graphsafe_gg import _testing

MODES = ["device", "sync", "async"]
PATTERNS = [[2, 2, 2], [0, 6, 0], [3, 0, 3], [0, 0, 0], [1, 0, 2]]


def between_fusions(sim, mode):
    """Three fusions, a product, two fusions."""
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes, out = p.param("int32", [o.g]), p.result("float32", [o.m, o.n])
    for _ in range(3):
        p.kernel("gg_test_delay", [], [2])
    inputs = [lhs, rhs, sizes] + ([copy_call(p, sizes, o.g)] if mode == "async" else [])
    gemm_call(p, mode, inputs, out)
    for _ in range(2):
        p.kernel("gg_test_delay", [], [2])
    executable = _testing.compile(sim.raw, p)

    def check(counts):
        params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
        params[sizes] = sim.put(np.array(counts, np.int32))
        got = np.frombuffer(executable.run(0, params)[out].read(), np.float32)
        np.testing.assert_allclose(
            got.reshape(o.m, o.n), o.expected(counts), 1e-5, 1e-6
        )

    return executable, check


@pytest.mark.parametrize(("mode", "graphs"), [("device", 1), ("sync", 2), ("async", 2)])
def test_p053_waiting_product_stays_outside_the_graph(sim, mode, graphs):
    executable, check = between_fusions(sim, mode)
    for counts in PATTERNS:
        check(counts)
    launched = executable.counters()["graph_launches"]
    assert launched == graphs * (len(PATTERNS) - 1)


def test_p054_device_mode_alone_is_really_captured(sim):
    gemm = Gemm(sim).warm_up()
    gemm.check([1, 1, 1])
    assert gemm.counters["graph_launches"] == 2
    assert gemm.counters["eager_calls"] == 1


@pytest.mark.parametrize("mode", MODES)
def test_p055_first_ever_call_may_be_the_captured_one(sim, mode):
    gemm = Gemm(sim, mode, warms_up=False)
    for counts in PATTERNS:
        gemm.check(counts)
    assert not sim.calls(stages={"execute-capture"}, functions=ALLOCATING | WAITING)


@pytest.mark.parametrize("mode", MODES)
def test_p057_every_pattern_in_any_order(sim, mode):
    gemm = Gemm(sim, mode)
    rng = np.random.default_rng(0)
    calls = PATTERNS + [list(rng.multinomial(6, [0.2, 0.3, 0.5])) for _ in range(7)]
    for order in (calls, calls[::-1]):
        for counts in order:
            gemm.check(counts)


def test_p058_async_in_a_graph_region_follows_the_second_sizes(sim):
    executable, check = between_fusions(sim, "async")
    check([1, 2, 3])
    check([1, 2, 3])
    check([3, 2, 1])
    assert _testing.site_stats(0, 1)["fallbacks"] == {}
    assert executable.counters()["graph_launches"] > 0


def test_p059_other_programs_bring_no_wait_back(sim):
    f = Gemm(sim, site=1)
    g = Gemm(sim, "async", site=2, operands=f.operands)
    for gemm in (f, f, g, g):
        gemm.check([1, 2, 3])
    params = f.params([1, 2, 3])
    sim.clear_log()
    for _ in range(2):
        f.executable.run(0, params)
    assert not sim.calls(functions=WAITING | {"cuEventQuery"})


def test_p060_calls_of_other_shapes_leave_a_graph_right(sim):
    first = Gemm(sim).warm_up()
    others = [
        Gemm(sim, "device", site=2 + i, operands=Operands(sim, m=4 + i, k=3 + i % 5))
        for i in range(10)
    ]
    first.warm_up()
    for turn in range(1000):
        others[turn % 10].run([1, 2, 1])
    sim.drain()
    first.check([0, 3, 3])


@pytest.mark.parametrize("mode", MODES)
def test_p061_results_kept_alive_are_distinct_and_right(sim, mode):
    gemm = Gemm(sim, mode)
    rng = np.random.default_rng(1)
    sizes = [list(rng.multinomial(6, [0.3, 0.3, 0.4])) for _ in range(50)]
    kept = [gemm.run(counts) for counts in sizes]
    assert len({buffer.address for buffer in kept}) == 50
    for buffer, counts in zip(kept, sizes, strict=True):
        np.testing.assert_allclose(
            gemm.operands.read(buffer), gemm.operands.expected(counts), 1e-5, 1e-6
        )


@pytest.mark.parametrize("mode", MODES)
def test_p062_a_larger_program_leaves_the_small_ones_graph_right(sim, mode):
    small = Gemm(sim, mode, site=1)
    large = Gemm(sim, mode, site=2, operands=Operands(sim, m=500, g=256))
    small.warm_up()
    large.check([1] * 256)
    large.check([2] * 250 + [0] * 6)
    for turn in range(100):
        small.check(PATTERNS[turn % 5])


def run_layers(sim, mode, num_layers):
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes = p.param("int32", [o.g])
    for layer in range(num_layers):
        inputs = [lhs, rhs, sizes]
        if mode == "async":
            inputs.append(copy_call(p, sizes, o.g))
        gemm_call(p, mode, inputs, p.temp("float32", [o.m, o.n]), site=layer)
    executable = _testing.compile(sim.raw, p)
    params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
    params[sizes] = sim.put(np.array([1, 2, 3], np.int32))
    for _ in range(3):
        executable.run(0, params)


@pytest.mark.parametrize("mode", MODES)
def test_p063_layers_reserve_no_memory_each(sim, mode):
    run_layers(sim, mode, num_layers=1)
    one = sim.live_counts()["pinned_bytes"]
    run_layers(sim, mode, num_layers=48)
    assert sim.live_counts()["pinned_bytes"] == one


def test_p064_updates_leave_nothing_behind(sim):
    gemm = Gemm(sim, "async").warm_up()
    buffers = [gemm.params([1, 2, 3]) for _ in range(40)]

    def cycle(num_calls):
        for turn in range(num_calls):
            gemm.executable.run(0, buffers[turn % 40])
        sim.drain()
        return sim.live_counts()

    before = cycle(200)
    assert gemm.counters["updates"] > 100
    assert cycle(1000) == before


def test_p065_one_ticket_serves_two_products_and_several_are_in_flight(sim):
    o = Operands(sim)
    p = _testing.Program()
    lhs, rhs = p.param("float32", [o.m, o.k]), p.param("float32", [o.g, o.k, o.n])
    sizes = [p.param("int32", [o.g]) for _ in range(4)]
    tickets = [copy_call(p, size, o.g) for size in sizes]
    outs = []
    for site, index in enumerate([0, 1, 0, 3, 2, 1, 3, 2]):
        outs.append((index, p.result("float32", [o.m, o.n])))
        inputs = [lhs, rhs, sizes[index], tickets[index]]
        gemm_call(p, "async", inputs, outs[-1][1], site=site)
    executable = _testing.compile(sim.raw, p)
    rng = np.random.default_rng(2)
    for _ in range(50):
        counts = [rng.multinomial(6, [0.2, 0.3, 0.5]) for _ in range(4)]
        params = {lhs: o.lhs_buffer, rhs: o.rhs_buffer}
        for size, count in zip(sizes, counts, strict=True):
            params[size] = sim.put(count.astype(np.int32))
        results = executable.run(0, params)
        for index, out in outs:
            got = np.frombuffer(results[out].read(), np.float32)
            np.testing.assert_allclose(
                got.reshape(o.m, o.n), o.expected(counts[index]), 1e-5, 1e-6
            )
    assert all(_testing.site_stats(0, i)["fallbacks"] == {} for i in range(8))


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_p066_sizes_of_a_busy_device_are_the_new_ones(simulate, mode):
    sim = simulate(jitter=4, seed=5)
    gemm = Gemm(sim, mode, delay=200)
    rng = np.random.default_rng(3)
    for _ in range(300):
        gemm.check(rng.multinomial(6, [0.2, 0.3, 0.5]))
    assert sim.device_word(0, "gg_test_other_launches") == 0


@pytest.mark.parametrize("mode", MODES)
def test_p071_devices_in_any_order(simulate, mode):
    sim = simulate(num_devices=4)
    gemm = Gemm(sim, mode)
    for _ in range(3):
        for on in (3, 0, 2, 1):
            gemm.operands = Operands(sim, seed=on, on=on)
            out = gemm.run([1, on, 2])
            assert out.device == on
            np.testing.assert_allclose(
                gemm.operands.read(out),
                gemm.operands.expected([1, on, 2]),
                1e-5,
                1e-6,
            )


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_weight_gradient_with_host_sizes(sim, mode):
    o = Operands(sim)
    dout = np.random.default_rng(3).standard_normal((o.m, o.n), np.float32)
    p = _testing.Program()
    lhs, cotangent = p.param("float32", [o.m, o.k]), p.param("float32", [o.m, o.n])
    sizes, out = p.param("int32", [o.g]), p.result("float32", [o.g, o.k, o.n])
    inputs = [lhs, cotangent, sizes]
    if mode == "async":
        inputs.append(copy_call(p, sizes, o.g))
    p.call(DRHS.format(mode), inputs, [out], product_attributes(mode))
    executable = _testing.compile(sim.raw, p)
    params = {lhs: o.lhs_buffer, cotangent: sim.put(dout)}
    for counts in PATTERNS:
        params[sizes] = sim.put(np.array(counts, np.int32))
        got = np.frombuffer(executable.run(0, params)[out].read(), np.float32)
        np.testing.assert_allclose(
            got.reshape(o.g, o.k, o.n), expected_drhs(o.lhs, dout, counts), 1e-5, 1e-6
        )


@pytest.mark.slow
def test_p084_many_steps_leave_pinned_memory_flat(sim):
    """K27: 50,000 captured and eager calls."""
    sim.set_log(False)
    gemm = Gemm(sim, "async").warm_up()
    eager = Gemm(sim, "async", operands=gemm.operands, command_buffers=False)
    eager.check([1, 2, 3])
    params = gemm.params([1, 2, 3])
    eager_params = eager.params([1, 2, 3])
    counts = []
    for _ in range(2):
        for _ in range(12_500):
            gemm.executable.run(0, params)
            eager.executable.run(0, eager_params)
        sim.drain()
        counts.append(sim.live_counts())
    assert counts[0] == counts[1]
