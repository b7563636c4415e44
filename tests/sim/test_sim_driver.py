# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the simulated driver adds to a driver: it tells what a GPU would not."""

import numpy as np
import pytest
from simulated import Gemm, Operands
from support import child_process

from graphsafe_gg import _testing

UNKNOWN = 999


def run_target(sim, target, runs=1):
    p = _testing.Program()
    x = p.param("int32", [64])
    p.call(target, [x], [p.temp("int32", [64])])
    executable = _testing.compile(sim.raw, p)
    params = {x: sim.put(np.zeros(64, np.int32))}
    for _ in range(runs):
        executable.run(0, params)
    return executable


def copy_program(sim, size_bytes):
    p = _testing.Program()
    source, target = p.param("uint8", [64]), p.result("uint8", [64])
    p.kernel("gg_test_copy", [target, source], [size_bytes])
    executable = _testing.compile(sim.raw, p)
    return lambda: executable.run(0, {source: sim.put(np.arange(64, dtype=np.uint8))})[
        target
    ]


def test_driver_does_no_work_at_the_call(sim):
    out = copy_program(sim, 64)()
    assert out.peek() == b"\xcd" * 64
    assert out.read() == bytes(range(64))


def test_driver_copies_in_parts(simulate):
    """With jitter a host that reads early sees a part of the bytes."""
    sim = simulate(jitter=6, seed=1)
    buffer = sim.buffer(0, 64)
    buffer.write(bytes(64))
    seen = set()
    while sim.advance(1):
        seen.add(buffer.peek().count(b"\x00"))
    assert seen - {0, 64}


def test_driver_access_out_of_bounds_loses_the_device(sim):
    sim.expected_violations.append(
        "gg_test_copy touched 4096 bytes outside live memory"
    )
    out = copy_program(sim, 4096)()
    with pytest.raises(_testing.ExecutionError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        out.read()
    with pytest.raises(_testing.ExecutionError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        copy_program(sim, 8)()


def test_driver_sees_memory_freed_under_a_copy(sim):
    sim.expected_violations.append("a copy wrote outside live memory")
    run_target(sim, "test_free_under_copy")
    sim.drain()


def test_driver_refuses_a_destroyed_event(sim):
    with pytest.raises(_testing.ExecutionError, match="CUDA_ERROR_INVALID_HANDLE"):
        run_target(sim, "test_use_destroyed_event")


def test_driver_reports_a_copy_to_pageable_memory(sim):
    sim.expected_violations.append("a copy to pageable memory makes the host wait")
    with pytest.raises(_testing.ExecutionError, match="CUDA_ERROR_INVALID_VALUE"):
        run_target(sim, "test_copy_to_pageable")


def test_driver_reports_calls_of_a_user_objects_destructor(sim):
    sim.expected_violations.append("cuCtxSynchronize was called by a user object's")
    run_target(sim, "test_call_in_destructor", runs=2).evict()
    sim.drain()


def test_driver_device_memory_is_not_the_hosts():
    done = child_process.run_python(
        "import ctypes\n"
        "from graphsafe_gg import _testing\n"
        "buffer = _testing.open().buffer(0, 64)\n"
        "ctypes.string_at(buffer.address, 4)\n"
    )
    assert done.returncode == -11


def test_fault_injection_counts_from_the_nth_call(sim):
    gemm = Gemm(sim, command_buffers=False)
    sim.inject("cuLaunchKernel", UNKNOWN, nth=3, count=2, stage="execute-eager")
    outcomes = []
    for _ in range(6):
        try:
            gemm.run([1, 2, 3])
            outcomes.append("ok")
        except _testing.ExecutionError:
            outcomes.append("failed")
    assert outcomes == ["ok", "ok", "failed", "failed", "ok", "ok"]


def test_fault_injection_matches_the_stage(sim):
    gemm = Gemm(sim)
    sim.inject("cuLaunchKernel", UNKNOWN, stage="execute-capture", count=-1)
    gemm.check([1, 2, 3])
    with pytest.raises(_testing.ExecutionError):
        gemm.run([1, 2, 3])


def test_log_names_stage_device_thread_and_kernel(simulate):
    sim = simulate(num_devices=2)
    Gemm(sim, operands=Operands(sim, on=1)).check([1, 2, 3])
    launches = [
        entry
        for entry in sim.log()
        if entry[0] == "cuLaunchKernel" and entry[1] == "execute-eager"
    ]
    assert len(launches) == 1
    _, _, device, thread, result, _, symbol = launches[0]
    assert (device, thread, result) == (1, 0, 0)
    assert symbol.startswith("gg_fwd_f32_gkn")


def test_simulation_is_one_at_a_time(sim):
    with pytest.raises(RuntimeError, match="must be closed"):
        _testing.open()


def test_simulation_seeds_repeat_and_differ():
    def interleaving(seed):
        sim = _testing.open(num_devices=2, seed=seed)
        buffers = [sim.buffer(on, 64) for on in range(2)]
        for step in range(20):
            for buffer in buffers:
                buffer.write(bytes([step]) * 64)
        seen = []
        while sim.advance(1):
            seen.append(tuple(buffer.peek()[0] for buffer in buffers))
        sim.close()
        return seen

    assert interleaving(1) == interleaving(1)
    assert interleaving(1) != interleaving(2)
