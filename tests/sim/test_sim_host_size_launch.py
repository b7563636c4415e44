# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Launches from sizes that the host knows, on a faked cuBLASLt: order on the streams,
zeros, the guard, and what the execute stage may not do."""

import concurrent.futures

import ml_dtypes
import numpy as np
import pytest
from host_size_call import PRODUCTS, SIX_GROUPS, Call, StaleCall
from simulated import ALLOCATING, Operands, gemm_call, loop

from graphsafe_gg import _testing

PATTERNS = {
    "full": [16, 8, 12, 4],
    "tail": [5, 0, 9, 3],
    "one_group": [0, 0, 17, 0],
    "six_groups": SIX_GROUPS,
    "all_empty": [0, 0, 0],
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_sim_host_launch_order(cublaslt, machine, mode, product, pattern, seed):
    """Zeros and lanes come behind earlier users of the result's memory and before later
    ones, however the streams overtake each other."""
    cublaslt(num_steps=12)
    sizes = PATTERNS[pattern]
    sim = machine(seed=seed, jitter=6)
    call = Call(sim, product, mode, g=len(sizes))
    for _ in range(3):
        call.check(sizes)
    path = "cublaslt" if any(sizes) else "kernels: nothing to multiply"
    assert call.launches == {path: 3}
    assert call.guards_tripped == 0


@pytest.mark.parametrize("product", PRODUCTS)
def test_sim_host_launch_16_bit(machine, product):
    """A row of 4 elements of 2 bytes is no multiple of 16 bytes."""
    sim = machine()
    call = Call(sim, product, "async", g=4, dtype=ml_dtypes.bfloat16)
    call.check([5, 0, 9, 3])
    assert call.launches == {"cublaslt": 1}
    call = Call(sim, product, "async", g=4, k=4, dtype=ml_dtypes.bfloat16, site=2)
    call.check([5, 0, 9, 3])
    assert call.launches == {"kernels: rows are not multiples of 16 bytes": 1}


def test_sim_host_launch_unaligned_operand(machine):
    """A loop whose second turn has its lhs four bytes past a multiple of 16."""
    sim = machine()
    o, sizes = Operands(sim, m=8, k=4, n=4, g=2), [3, 5]
    turn_bytes = o.lhs.nbytes + 4
    stack = np.zeros(2 * turn_bytes, np.uint8)
    for turn in range(2):
        begin = turn * turn_bytes
        stack[begin : begin + o.lhs.nbytes] = np.frombuffer(o.lhs.tobytes(), np.uint8)
    p = _testing.Program()
    whole, rhs = p.param("uint8", stack.shape), p.param("float32", o.rhs.shape)
    counts, outs = p.param("int32", [2]), p.result("float32", [2, o.m, o.n])
    lhs = p.slice(p.slice(whole, "uint8", [4]), "float32", o.lhs.shape)
    with loop(p, 2):
        out = p.slice(outs, "float32", [o.m, o.n])
        gemm_call(p, "sync", [lhs, rhs, counts], out)
    params = {whole: sim.put(stack), rhs: o.rhs_buffer}
    params[counts] = sim.put(np.array(sizes, np.int32))
    got = _testing.compile(sim.raw, p).run(0, params)[outs].read()
    got = np.frombuffer(got, np.float32).reshape(2, o.m, o.n)
    np.testing.assert_allclose(got, [o.expected(sizes)] * 2, rtol=1e-5, atol=1e-6)
    assert _testing.host_launch_stats(0, 1)["host_size_launches"] == {
        "cublaslt": 1,
        "kernels: operands do not start at a multiple of 16 bytes": 1,
    }


def test_sim_host_launch_sizes_change_from_run_to_run(machine):
    call = Call(machine(jitter=4), "gkn", "async", g=4)
    for sizes in ([16, 8, 12, 4], [0, 0, 0, 0], [40, 0, 0, 0], [1, 1, 1, 1]):
        call.check(sizes)
    assert call.launches == {"cublaslt": 3, "kernels: nothing to multiply": 1}


def num_launches(sim, call, sizes):
    before = sim.num_calls("cuLaunchKernel")
    call.check(sizes)
    return sim.num_calls("cuLaunchKernel") - before


def test_sim_host_launch_guard_only_where_sizes_came_early(machine):
    """Two groups, the delay; async: the ticket's kernel and the guard besides."""
    sim = machine()
    assert num_launches(sim, Call(sim, "gkn", "sync", g=4), [5, 0, 9, 0]) == 3
    assert num_launches(sim, Call(sim, "gkn", "async", g=4), [5, 0, 9, 0]) == 5


@pytest.mark.parametrize(
    ("pattern", "num_streams", "num_waits"),
    [("six_groups", 4, 8), ("tail", 3, 6), ("one_group", 1, 0)],
)
def test_sim_host_launch_spreads_groups_over_lanes(
    machine, pattern, num_streams, num_waits
):
    """At most four, each forked and joined by one wait; one group needs none."""
    sizes = PATTERNS[pattern]
    sim = machine()
    Call(sim, "gkn", "sync", g=len(sizes)).check(sizes)
    assert _testing.num_cublaslt_streams() == num_streams
    assert len(sim.calls(functions={"cuStreamWaitEvent"})) == num_waits


@pytest.mark.parametrize("context", ["none", "other"])
def test_sim_host_launch_runs_under_any_current_context(machine, context):
    call = Call(machine(num_devices=2), "drhs", "async", g=4, context=context)
    call.check([5, 0, 9, 3])
    assert call.launches == {"cublaslt": 1}


def test_sim_host_launch_counts_one_launch_a_product(machine):
    call = Call(machine(), "gkn", "async", g=4)
    call.check([5, 0, 9, 0])
    assert _testing.device_stats(0)["launches"] == 1


@pytest.mark.parametrize("product", PRODUCTS)
def test_sim_host_launch_guard_recomputes_stale_sizes(machine, product):
    """Eager, captured and replayed copies: the host trusts sizes that are not the
    operand's, and the device finds out."""
    call = StaleCall(machine(jitter=4), product, "async", g=4)
    for round_idx in range(1, 4):
        sizes, stale = [5, 0, 9, 3], [3, 9, round_idx, 6]
        results = call.run_stale(sizes, stale)
        np.testing.assert_allclose(
            call.read(results[call.after]), call.expected(sizes), rtol=1e-5, atol=1e-5
        )
        assert call.guards_tripped == round_idx
    assert call.launches == {"cublaslt": 3}


def test_sim_host_launch_sizes_copied_anew_need_no_guard(machine):
    """Stale and bad ones are read again from the operand: whatever the ticket says."""
    call = StaleCall(machine(), "gkn", "async", g=4)
    sizes = [5, 0, 9, 3]
    results = call.run_stale(sizes, [99, 0, 0, 0])
    np.testing.assert_allclose(
        call.read(results[call.after]), call.expected(sizes), rtol=1e-5, atol=1e-5
    )
    assert call.launches == {"cublaslt": 1}
    assert call.guards_tripped == 0


def test_sim_host_launch_execute_chooses_and_allocates_nothing(machine):
    sim = machine()
    call = Call(sim, "gkn", "async", g=4)
    call.check([5, 0, 9, 3])
    stages = {}
    for function, stage in _testing.cublaslt_calls():
        stages.setdefault(stage, set()).add(function)
    assert stages.pop("execute-eager") == {"Matmul", "MatrixLayoutSetAttribute"}
    assert set(stages) == {"initialize"}
    assert "MatmulAlgoGetHeuristic" in stages["initialize"]

    _testing.clear_cublaslt_calls()
    sim.clear_log()
    call.check([40, 0, 0, 0])
    assert {stage for _, stage in _testing.cublaslt_calls()} == {"execute-eager"}
    streams = {"cuStreamCreate", "cuStreamDestroy"}
    assert sim.calls(functions=ALLOCATING | streams) == []
    relaxed = {"cuThreadExchangeStreamCaptureMode"}
    assert sim.calls(stages={"initialize"}, functions=relaxed) == []


@pytest.mark.parametrize("rows", [5, 8])
def test_sim_host_launch_no_algorithm_for_a_bucket(cublaslt, machine, rows):
    """An algorithm must serve the fewest rows of its bucket as well as the most."""
    cublaslt(refused_rows=rows)
    call = Call(machine(), "gkn", "sync", g=3)
    call.check([4, 4, 16])
    call.check([4, 8, 16])
    assert call.launches == {"cublaslt": 1, "kernels: no cublaslt algorithm": 1}


@pytest.mark.parametrize(
    ("num_algorithms", "path"),
    [(2, "cublaslt"), (1, "kernels: no cublaslt algorithm")],
)
@pytest.mark.parametrize("first", [{"workspace_bytes": 1}, {"first_state": 15}])
def test_sim_host_launch_first_algorithm_is_of_no_use(
    cublaslt, machine, num_algorithms, path, first
):
    """It wants a workspace, or the library says that it does not run."""
    cublaslt(num_algorithms=num_algorithms, **first)
    call = Call(machine(), "gkn", "sync", g=3)
    call.check([4, 4, 16])
    assert call.launches == {path: 1}


def test_sim_host_launch_reports_the_version(cublaslt, machine):
    cublaslt(version=130104)
    Call(machine(), "gkn", "sync", g=4).check([5, 0, 9, 3])
    assert _testing.cublaslt_state() == "13.1.4"


def test_sim_host_launch_switched_off(machine):
    _testing.set_cublaslt_use("off")
    call = Call(machine(), "gkn", "async", g=4)
    call.check([5, 0, 9, 3])
    assert call.launches == {"kernels: cublaslt is switched off": 1}
    assert _testing.cublaslt_calls() == []


def test_sim_host_launch_small_products_never_open_the_library(machine):
    _testing.set_cublaslt_use("auto")
    call = Call(machine(), "gkn", "async", g=4)
    call.check([5, 0, 9, 3])
    assert call.launches == {"kernels: few rows a group": 1}
    assert _testing.cublaslt_calls() == []


def test_sim_host_launch_threads_and_devices(cublaslt, machine):
    """Threads of one device share its side streams; devices share nothing."""
    cublaslt(num_steps=5)
    sim = machine(num_devices=2, background=True, jitter=4)
    calls = [
        Call(sim, PRODUCTS[i % 3], "async", g=4, on=i % 2, site=i + 1, seed=i)
        for i in range(4)
    ]
    patterns = [[5, 0, 9, 3], [40, 0, 0, 0], [1, 2, 3, 4], [0, 10, 10, 10]]

    def run(call, seed):
        rng = np.random.default_rng(seed)
        for _ in range(15):
            call.check(patterns[rng.integers(len(patterns))])

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(run, call, i) for i, call in enumerate(calls)]:
            done.result()
    assert [call.guards_tripped for call in calls] == [0] * 4
    assert all(call.launches == {"cublaslt": 15} for call in calls)
