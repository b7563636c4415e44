# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Device mode through its real handlers: captured, replayed, never waited for."""

import ml_dtypes
import numpy as np
import pytest
from simulated import (
    ALLOCATING,
    DRHS,
    POLLING,
    WAITING,
    Gemm,
    Operands,
    expected_drhs,
    gemm_call,
    product_attributes,
)

from graphsafe_gg import _testing

KERNEL_NODE = 0


@pytest.fixture
def policy():
    yield _testing.set_on_bad_sizes
    _testing.set_on_bad_sizes("log")


@pytest.mark.parametrize("product", [*("grouped_gemm", "drhs")])
def test_device_mode_has_the_trait(product):
    assert _testing.is_capturable(f"graphsafe_gg_{product}_device_v2")


def test_device_mode_is_one_kernel_node(sim):
    gemm = Gemm(sim).warm_up()
    assert gemm.executable.node_types() == [[[KERNEL_NODE]]]


def test_device_mode_replays_follow_the_sizes(sim):
    gemm = Gemm(sim).warm_up()
    o = gemm.operands
    params = gemm.params([0, 0, 0])
    for sizes in ([6, 0, 0], [0, 6, 0], [0, 0, 0], [1, 1, 1], [2, 3, 1]):
        gemm.sizes_buffer.write(np.array(sizes, np.int32).tobytes())
        out = gemm.executable.run(0, params)[gemm.out]
        np.testing.assert_allclose(o.read(out), o.expected(sizes), 1e-5, 1e-6)
        captures = gemm.counters["captures"]
    assert gemm.counters["captures"] == captures


def test_device_mode_replay_queued_behind_work_reads_sizes_of_its_turn(sim):
    gemm = Gemm(sim).warm_up()
    params = gemm.params([6, 0, 0])
    sim.close_gate()
    first = gemm.executable.run(0, params)[gemm.out]
    gemm.sizes_buffer.write(np.array([0, 0, 6], np.int32).tobytes())
    second = gemm.executable.run(0, params)[gemm.out]
    sim.open_gates()
    o = gemm.operands
    np.testing.assert_allclose(o.read(first), o.expected([6, 0, 0]), 1e-5, 1e-6)
    np.testing.assert_allclose(o.read(second), o.expected([0, 0, 6]), 1e-5, 1e-6)


def test_device_mode_drhs_is_captured_and_right(sim):
    o = Operands(sim)
    dout = np.random.default_rng(3).standard_normal((o.m, o.n), np.float32)
    p = _testing.Program()
    lhs, cotangent = p.param("float32", [o.m, o.k]), p.param("float32", [o.m, o.n])
    sizes, out = p.param("int32", [o.g]), p.result("float32", [o.g, o.k, o.n])
    p.call(DRHS.format("device"), [lhs, cotangent, sizes], [out], product_attributes())
    executable = _testing.compile(sim.raw, p)
    dout_buffer = sim.put(dout)
    for counts in ([1, 2, 3], [0, 6, 0], [2, 0, 1]):
        result = executable.run(
            0,
            {
                lhs: o.lhs_buffer,
                cotangent: dout_buffer,
                sizes: sim.put(np.array(counts, np.int32)),
            },
        )[out]
        got = np.frombuffer(result.read(), np.float32).reshape(o.g, o.k, o.n)
        np.testing.assert_allclose(got, expected_drhs(o.lhs, dout, counts), 1e-5, 1e-6)
    assert executable.counters()["graph_launches"] == 2


def test_device_mode_bfloat16_and_transposed_weights(sim):
    rng = np.random.default_rng(0)
    lhs_value = rng.standard_normal((5, 4)).astype(ml_dtypes.bfloat16)
    rhs_value = rng.standard_normal((2, 3, 4)).astype(ml_dtypes.bfloat16)
    p = _testing.Program()
    lhs, rhs = p.param("bfloat16", [5, 4]), p.param("bfloat16", [2, 3, 4])
    sizes, out = p.param("int64", [2]), p.result("float32", [5, 3])
    gemm_call(p, "device", [lhs, rhs, sizes], out, transpose_rhs=True)
    executable = _testing.compile(sim.raw, p)
    params = {
        lhs: sim.put(lhs_value),
        rhs: sim.put(rhs_value),
        sizes: sim.put(np.array([3, 1], np.int64)),
    }
    got = np.frombuffer(executable.run(0, params)[out].read(), np.float32)
    want = np.zeros((5, 3), np.float32)
    weights = rhs_value.astype(np.float32).transpose(0, 2, 1)
    want[:3] = lhs_value[:3].astype(np.float32) @ weights[0]
    want[3:4] = lhs_value[3:4].astype(np.float32) @ weights[1]
    np.testing.assert_allclose(got.reshape(5, 3), want, 1e-5, 1e-6)


def test_device_mode_allocates_in_initialize_alone(sim):
    gemm = Gemm(sim).warm_up()
    gemm.check([0, 3, 1])
    stages = {stage for _, stage in sim.calls(functions=ALLOCATING)}
    assert stages == {"initialize"}


def test_device_mode_allocates_nothing_in_steady_state(sim):
    gemm = Gemm(sim).warm_up()
    sim.clear_log()
    for _ in range(3):
        gemm.check([0, 3, 1])
    assert not sim.calls(functions=ALLOCATING)


def test_device_mode_never_waits(sim):
    gemm = Gemm(sim).warm_up()
    gemm.check([0, 3, 1])
    assert not sim.calls(functions=WAITING | POLLING)


def test_device_mode_launches_once_a_call(sim):
    Gemm(sim).check([0, 3, 1])
    assert len(sim.calls(functions={"cuLaunchKernel"})) == 1


def test_device_mode_initialize_twice_allocates_once(sim):
    Gemm(sim, initializes_twice=True).warm_up()
    assert sim.num_calls("cuMemHostAlloc") == 1
    assert sim.num_calls("cuLibraryLoadData") == 1


def test_device_mode_counts_calls_per_site(sim):
    gemm = Gemm(sim, site=77).warm_up()
    gemm.executable.evict()
    gemm.check([1, 2, 3])
    assert (gemm.stats["eager_calls"], gemm.stats["captured_calls"]) == (2, 1)


def test_device_mode_sites_are_listed_in_order(sim):
    sites = [5, 1 << 62, 1, 9, 1 << 40]
    for site in sites:
        Gemm(sim, site=site).check([1, 2, 3])
    assert _testing.device_stats(0)["sites"] == sorted(sites)


@pytest.mark.parametrize("shape", [{"m": 0}, {"n": 0}, {"g": 0}, {"k": 0}])
def test_device_mode_empty_operand(sim, shape):
    sizes = [0] * shape.get("g", 3)
    gemm = Gemm(sim, operands=Operands(sim, **shape))
    for _ in range(3):
        gemm.check(sizes)


@pytest.mark.parametrize("context", ["own", "none", "other"])
def test_device_mode_runs_under_any_current_context(simulate, context):
    sim = simulate(num_devices=2)
    Gemm(sim, context=context).warm_up().check([0, 0, 6])


def test_device_mode_two_devices_keep_apart(simulate):
    sim = simulate(num_devices=2)
    gemms = [Gemm(sim, operands=Operands(sim, on=on, seed=on)) for on in range(2)]
    for sizes in ([1, 2, 3], [3, 2, 1], [0, 0, 6], [6, 0, 0]):
        outs = [gemm.run(sizes[:: 1 - 2 * i]) for i, gemm in enumerate(gemms)]
        for i, (gemm, out) in enumerate(zip(gemms, outs, strict=True)):
            np.testing.assert_allclose(
                gemm.operands.read(out),
                gemm.operands.expected(sizes[:: 1 - 2 * i]),
                1e-5,
                1e-6,
            )


def test_device_mode_one_program_on_two_devices(simulate):
    sim = simulate(num_devices=2)
    gemm = Gemm(sim)
    here, there = gemm.operands, Operands(sim, on=1, seed=9)
    for _ in range(3):
        for operands in (there, here):
            gemm.operands = operands
            gemm.check([1, 3, 2])
    assert _testing.site_stats(1, 1)["captured_calls"] >= 1


BAD_SIZES = [
    ([2, -1, 3], "group_sizes[1] must be >= 0; got -1"),
    ([2, 2, 4], "sum(group_sizes[:3]) must be at most m = 6; got 8"),
]


@pytest.mark.parametrize(("sizes", "message"), BAD_SIZES)
def test_device_mode_bad_sizes_are_cut_and_recorded(sim, sizes, message):
    gemm = Gemm(sim).warm_up()
    gemm.check(sizes)
    assert message in _testing.size_error(0, gemm.site)


def test_device_mode_first_bad_sizes_are_kept(sim):
    gemm = Gemm(sim).warm_up()
    gemm.check([2, -1, 3])
    gemm.check([0, 0, 99])
    assert "got -1" in _testing.size_error(0, gemm.site)


def test_device_mode_bad_sizes_name_the_site(sim):
    _testing.name_call_site(41, "layers_7/experts")
    gemm = Gemm(sim, site=41)
    gemm.check([0, -3, 0])
    assert "call site layers_7/experts" in _testing.size_error(0, 41)


def test_device_mode_bad_sizes_raise_at_the_next_initialize(sim, policy):
    gemm = Gemm(sim).warm_up()
    gemm.check([2, -1, 3])
    policy("raise")
    with pytest.raises(
        _testing.ExecutionError, match=r"INVALID_ARGUMENT: .*must be >= 0"
    ):
        gemm.check([1, 1, 1])
    gemm.check([1, 1, 1])


def test_device_mode_bad_sizes_log_once(sim, capfd):
    gemm = Gemm(sim, site=4242).warm_up()
    gemm.check([2, -1, 3])
    gemm.check([1, 1, 1])
    _testing.clear_size_error(0, gemm.site)
    gemm.check([2, -2, 3])
    gemm.check([1, 1, 1])
    assert capfd.readouterr().err.count("must be >= 0; got -") == 1


def test_device_mode_bad_sizes_wait_for_check(sim, policy, capfd):
    policy("check")
    gemm = Gemm(sim, site=4343).warm_up()
    gemm.check([2, -1, 3])
    gemm.check([1, 1, 1])
    assert capfd.readouterr().err == ""
    assert _testing.size_error(0, gemm.site) is not None


def test_device_mode_bad_sizes_of_one_site_spare_another(sim, policy):
    bad, good = Gemm(sim, site=1), Gemm(sim, site=2)
    bad.warm_up().check([0, 9, 0])
    policy("raise")
    good.warm_up()
    assert _testing.size_error(0, good.site) is None


def test_device_mode_bad_sizes_spare_other_sites_however_many(sim):
    """More sites than a slab of records has room for."""
    operands = Operands(sim)
    gemms = [Gemm(sim, site=i, operands=operands) for i in range(1030)]
    for gemm in gemms:
        gemm.check([1, 1, 1])
    gemms[-1].check([0, -5, 0])
    assert "got -5" in _testing.size_error(0, gemms[-1].site)
    assert all(_testing.size_error(0, gemm.site) is None for gemm in gemms[:-1])
