# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K24: a foreign capture and our handlers leave each other alone."""

import threading

import numpy as np
import pytest
from host_size_call import Call
from simulated import MANY_GROUPS, MORE_THAN_ALL_SLOTS, Copies, Gemm, Operands

from graphsafe_gg import _ffi, _testing, raw

MODES = ["device", "sync", "async"]


def run_on_thread(body):
    failures = []

    def run():
        try:
            body()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_global", [False, True])
def test_capture_of_another_thread_is_not_disturbed(sim, mode, is_global):
    """P-075: first use, allocations and waits included, beside a capture."""
    gemm = Gemm(sim, mode, delay=5)
    stream = sim.begin_foreign_capture(0, is_global)
    outs = []

    def life():
        params = gemm.params([1, 2, 3])
        for _ in range(4):
            outs.append(gemm.executable.run(0, params)[gemm.out])

    run_on_thread(life)
    assert sim.end_foreign_capture(stream) == 0
    for out in outs:
        got = gemm.operands.read(out)
        np.testing.assert_allclose(got, gemm.operands.expected([1, 2, 3]), 1e-5, 1e-6)


def test_capture_of_another_thread_survives_recycled_slots(sim):
    """Finding an idle slot polls events."""
    filler = Copies(
        sim, num_copies=MORE_THAN_ALL_SLOTS, g=MANY_GROUPS, command_buffers=False
    )
    other = Copies(sim, num_copies=4, g=MANY_GROUPS, command_buffers=False)
    run_on_thread(filler.run)
    stream = sim.begin_foreign_capture()
    run_on_thread(other.run)
    assert sim.end_foreign_capture(stream) == 0


def test_capture_of_another_thread_survives_cublaslt(machine):
    """It allocates when it is made, and loads a kernel at its first launch."""
    sim = machine()
    call = Call(sim, "gkn", "async", g=4)
    sizes, results = [5, 0, 9, 3], []
    stream = sim.begin_foreign_capture()
    run_on_thread(lambda: results.append(call.run(sizes)))
    assert sim.end_foreign_capture(stream) == 0
    assert call.launches == {"cublaslt": 1}
    np.testing.assert_allclose(
        call.read(results[0][call.after]), call.expected(sizes), rtol=1e-5, atol=1e-5
    )


def test_capture_of_another_thread_survives_a_raw_slot_used_again(sim, monkeypatch):
    """Finding out that nobody holds it polls its event."""
    monkeypatch.setattr(_ffi, "RawSlot", _testing.RawSlot)
    raw.Slot(3)
    stream = sim.begin_foreign_capture()
    run_on_thread(lambda: raw.Slot(3))
    assert sim.end_foreign_capture(stream) == 0
    assert _testing.device_stats(0)["slots"] == 1


def test_capture_of_another_thread_survives_freed_memory(sim):
    """What cannot be mapped is freed at once."""
    gemm = Gemm(sim, "sync")
    params = gemm.params([1, 2, 3])
    stream = sim.begin_foreign_capture()
    sim.inject("cuMemHostGetDevicePointer", 999, stage="initialize")
    with pytest.raises(RuntimeError, match="cuMemHostGetDevicePointer failed"):
        run_on_thread(lambda: gemm.executable.run(0, params))
    assert sim.num_calls("cuMemFreeHost") == 1
    assert sim.end_foreign_capture(stream) == 0


def test_capture_of_another_thread_survives_a_failed_wait(sim):
    """A buffer whose copy may be pending is polled at the next call."""
    gemm = Gemm(sim, "sync", operands=Operands(sim))
    gemm.check([1, 2, 3])
    sim.inject("cuEventQuery", 999, stage="execute-eager")
    params = gemm.params([1, 2, 3])
    with pytest.raises(RuntimeError):
        gemm.executable.run(0, params)
    stream = sim.begin_foreign_capture()
    run_on_thread(lambda: gemm.executable.run(0, params))
    assert sim.end_foreign_capture(stream) == 0
