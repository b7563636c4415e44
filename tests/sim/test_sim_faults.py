# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Each driver call of each handler fails once: a clear error, no leak, life goes on."""

import contextlib
import threading

import pytest
from simulated import Gemm, Operands

from graphsafe_gg import _testing

UNKNOWN = 999

INITIALIZE = [
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceGetAttribute",
    "cuCtxGetCurrent",
    "cuCtxPushCurrent",
    "cuThreadExchangeStreamCaptureMode",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer",
    "cuLibraryLoadData",
    "cuLibraryGetKernel",
    "cuKernelGetFunction",
    "cuFuncSetAttribute",
]
COPYING = [
    "cuLaunchKernel",
    "cuMemcpyDtoHAsync",
    "cuStreamGetCaptureInfo",
    "cuEventRecordWithFlags",
]
EXECUTE = {
    "device": ["cuLaunchKernel", "cuStreamIsCapturing"],
    "sync": [
        "cuMemcpyDtoHAsync",
        "cuEventRecord",
        "cuEventQuery",
        "cuLaunchKernel",
        "cuThreadExchangeStreamCaptureMode",
    ],
    "async": [*COPYING, "cuEventQuery", "cuThreadExchangeStreamCaptureMode"],
}
CAPTURE = {
    "device": ["cuLaunchKernel", "cuStreamIsCapturing"],
    "async": [*COPYING, "cuUserObjectCreate", "cuGraphRetainUserObject"],
}
# Made by destructors, or answered by the caller: no error can come of them.
UNFAILING = {"cuCtxPopCurrent", "cuEventDestroy", "cuMemFreeHost"}
IN_EVERY_STAGE = ["cuCtxGetCurrent", "cuCtxPushCurrent"]

FAULTS = [
    *[
        (mode, "initialize", function)
        for mode in EXECUTE
        for function in INITIALIZE + ["cuEventCreate"] * (mode != "device")
    ],
    *[
        (mode, "execute-eager", function)
        for mode, functions in EXECUTE.items()
        for function in functions + IN_EVERY_STAGE
    ],
    *[
        (mode, "execute-capture", function)
        for mode, functions in CAPTURE.items()
        for function in functions + IN_EVERY_STAGE
    ],
]


def runtime_counts(sim):
    counts = sim.live_counts()
    return {name: counts[name] for name in ("events", "pinned", "user_objects")}


@pytest.mark.parametrize("mode", list(EXECUTE))
def test_faults_cover_every_call(sim, mode):
    gemm = Gemm(sim, mode, context="none", delay=3).warm_up()
    gemm.check([3, 2, 1])
    made = {
        (mode, stage, function)
        for function, stage in sim.calls()
        if function not in UNFAILING
    }
    # The wait may find its event done at once.
    assert made <= set(FAULTS)


@pytest.mark.parametrize(("mode", "stage", "function"), FAULTS)
def test_fault_is_told_and_survived(sim, mode, stage, function):
    # With no context current each handler pushes its own.
    gemm = Gemm(sim, mode, context="none", delay=3)
    if stage == "execute-capture":
        gemm.check([2, 2, 2])
    sim.inject(function, UNKNOWN, stage=stage)
    with pytest.raises(_testing.ExecutionError) as failure:
        gemm.run([1, 2, 3])
    message = str(failure.value)
    assert f"{function}" in message
    assert "CUDA_ERROR_UNKNOWN" in message
    if function != "cuThreadExchangeStreamCaptureMode":
        assert "on device 0" in message
    assert sim.num_faults() == 1
    if stage == "execute-capture":
        with pytest.raises(_testing.ExecutionError, match="not empty"):
            gemm.run([1, 2, 3])
        gemm = Gemm(sim, mode, context="none", operands=gemm.operands)
    gemm.warm_up().check([0, 0, 6])


@pytest.mark.parametrize(("mode", "stage", "function"), FAULTS)
def test_fault_leaks_nothing(sim, mode, stage, function):
    """Past the first few failures nothing grows: slots and buffers are used again."""
    gemm = Gemm(sim, mode, context="none", delay=3)
    gemm.check([2, 2, 2])
    for turn in range(60):
        if turn == 20:
            sim.drain()
            good = runtime_counts(sim)
        if stage == "execute-capture":
            gemm = Gemm(sim, mode, context="none", operands=gemm.operands)
            gemm.check([2, 2, 2])
        sim.inject(function, UNKNOWN, stage=stage)
        # A call that set-up alone makes is not met again.
        with contextlib.suppress(_testing.ExecutionError):
            gemm.run([1, 2, 3])
        sim.clear_faults()
    sim.drain()
    assert runtime_counts(sim) == good


@pytest.mark.parametrize("mode", list(EXECUTE))
def test_fault_out_of_pinned_memory_names_the_bytes(sim, mode):
    gemm = Gemm(sim, mode)
    sim.inject("cuMemHostAlloc", 2, stage="initialize")
    with pytest.raises(
        _testing.ExecutionError,
        match=r"RESOURCE_EXHAUSTED: cuMemHostAlloc\(\d+ bytes\) failed on device 0",
    ):
        gemm.run([1, 2, 3])
    gemm.warm_up()


@pytest.mark.parametrize("code", [209, 222])
def test_fault_driver_too_old_for_the_kernels(sim, code):
    """It has no binary for the GPU, or does not know the PTX."""
    gemm = Gemm(sim)
    sim.inject("cuLibraryLoadData", code, stage="initialize")
    with pytest.raises(
        _testing.ExecutionError, match=r"UNIMPLEMENTED: .*Update the driver"
    ):
        gemm.run([1, 2, 3])
    gemm.warm_up()


def test_fault_gpu_too_old(simulate):
    sim = simulate(arch=75)
    with pytest.raises(
        _testing.ExecutionError,
        match=r"UNIMPLEMENTED: .*capability 8.0 or newer; got 7.5",
    ):
        Gemm(sim).run([1, 2, 3])


@pytest.mark.parametrize("mode", list(EXECUTE))
def test_fault_gpu_too_old_for_nothing_to_multiply(simulate, mode):
    Gemm(sim := simulate(arch=75), mode, operands=Operands(sim, m=0)).check([0, 0, 0])


def test_fault_on_one_device_spares_the_other(simulate):
    sim = simulate(num_devices=2)
    good = Gemm(sim, operands=Operands(sim, on=0))
    bad = Gemm(sim, operands=Operands(sim, on=1))
    sim.inject("cuLaunchKernel", 719, stage="execute-eager", device=1, count=-1)
    for _ in range(3):
        good.check([1, 2, 3])
        with pytest.raises(_testing.ExecutionError, match="failed on device 1"):
            bad.run([1, 2, 3])


@pytest.mark.parametrize("mode", list(EXECUTE))
def test_lost_device_raises_the_same_error_at_every_call(sim, mode):
    sim.allowed_leaks |= {"events", "pinned", "user_objects"}
    gemm = Gemm(sim, mode).warm_up()
    params = gemm.params([1, 2, 3])
    sim.lose_device(0, 719)
    for _ in range(3):
        with pytest.raises(_testing.ExecutionError, match="CUDA_ERROR_LAUNCH_FAILED"):
            gemm.executable.run(0, params)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_lost_device_ends_a_wait(simulate, mode):
    """The device goes while the host waits for its sizes."""
    sim = simulate(steps_per_query=0)
    sim.allowed_leaks |= {"events", "pinned", "user_objects"}
    gemm = Gemm(sim, mode)
    failures = []

    def run():
        try:
            gemm.run([1, 2, 3])
        except _testing.ExecutionError as failure:
            failures.append(str(failure))

    sim.close_gate()
    thread = threading.Thread(target=run)
    thread.start()
    while not sim.calls(functions={"cuEventQuery"}):
        pass
    sim.lose_device(0, 719)
    thread.join(10)
    assert not thread.is_alive()
    assert "cuEventQuery failed on device 0: CUDA_ERROR_LAUNCH_FAILED" in failures[0]


def test_lost_device_spares_the_other(simulate):
    sim = simulate(num_devices=2)
    sim.allowed_leaks |= {"events", "pinned", "user_objects"}
    gemms = [Gemm(sim, operands=Operands(sim, on=on)).warm_up() for on in range(2)]
    sim.lose_device(0, 719)
    with pytest.raises(_testing.ExecutionError):
        gemms[0].check([1, 2, 3])
    gemms[1].check([1, 2, 3])
