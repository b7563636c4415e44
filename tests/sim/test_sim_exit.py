# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""No driver, no device any more, another process: errors, never a crash."""

import ctypes.util
import os
import pathlib

import pytest
from simulated import Gemm
from support import child_process

from graphsafe_gg import _testing

HERE = pathlib.Path(__file__).parent
MODES = ["device", "sync", "async"]
SETUP = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from simulated import Gemm, Simulation
from graphsafe_gg import _testing
"""


def run_child(code):
    done = child_process.run_python(SETUP + code)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.strip()


@pytest.mark.skipif(
    ctypes.util.find_library("cuda") is not None, reason="a CUDA driver is installed"
)
def test_no_driver_is_named_with_the_way_out():
    for _ in range(2):  # a later call tries again
        with pytest.raises(RuntimeError, match=r"libcuda.*Install an NVIDIA driver"):
            _testing.open_real_driver()


@pytest.mark.parametrize("mode", MODES)
def test_exit_with_work_in_flight_is_clean(mode):
    code = f"""
sim = Simulation()
gemm = Gemm(sim, {mode!r}).warm_up()
copies = Gemm(sim, "device", site=2, operands=gemm.operands)
sim.close_gate()
held = [copies.run([1, 2, 3]) for _ in range(3)]
print("alive")
"""
    assert run_child(code) == "alive"


@pytest.mark.parametrize("mode", MODES)
def test_exit_after_the_driver_is_clean(mode):
    """The driver goes first; what Python still holds goes later."""
    code = f"""
import atexit
sim = Simulation()
gemm = Gemm(sim, {mode!r}).warm_up()
held = [gemm.run([1, 2, 3]) for _ in range(3)]
atexit.register(sim.raw.deinitialize)
print("alive")
"""
    assert run_child(code) == "alive"


def test_exit_with_a_raw_copy_in_flight_is_clean():
    """A slot that a module holds goes with the interpreter; its copy is pending."""
    code = """
import numpy as np
from graphsafe_gg import _ffi, raw
_ffi.RawSlot = _testing.RawSlot
sim = Simulation()
sizes = sim.put(np.array([1, 2, 3], np.int32))
sim.drain()
slot = raw.Slot(3)
stream = _testing.create_stream(sim.raw)
raw.copy_group_sizes(stream, raw.DeviceArray(sizes.address, (3,), "int32"), slot)
assert not slot.is_done()
print("alive")
"""
    assert run_child(code) == "alive"


def test_exit_with_a_running_background_thread_is_clean():
    code = """
sim = Simulation(background=True)
gemm = Gemm(sim, "async").warm_up()
held = [gemm.run([1, 2, 3]) for _ in range(30)]
print("alive")
"""
    assert run_child(code) == "alive"


@pytest.mark.parametrize("mode", MODES)
def test_call_after_the_driver_raises(sim, mode, capfd):
    sim.allowed_leaks |= {"events", "pinned", "user_objects"}
    gemm = Gemm(sim, mode, command_buffers=False, poisons=False, context="none")
    gemm.check([1, 2, 3])
    params = gemm.params([1, 2, 3])
    sim.deinitialize()
    for _ in range(2):
        with pytest.raises(
            _testing.ExecutionError,
            match=r"cuCtxGetCurrent failed on device 0: CUDA_ERROR_DEINITIALIZED",
        ):
            gemm.executable.run(0, params)
    sim.finish_quietly()
    assert capfd.readouterr().err == ""


def fork_and_report(body):
    """The message of the error that the body raises in a forked child."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        message = "no error"
        try:
            body()
        except BaseException as failure:
            message = str(failure)
        os.write(write_end, message.encode())
        os._exit(0)
    os.close(write_end)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read_end, "rb") as pipe:
        return os.waitstatus_to_exitcode(status), pipe.read().decode()


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.parametrize("mode", MODES)
def test_forked_child_raises_and_the_parent_goes_on(sim, mode):
    gemm = Gemm(sim, mode, command_buffers=False, poisons=False, context="none")
    gemm.check([1, 2, 3])
    params = gemm.params([1, 2, 3])

    def body():
        gemm.executable.run(0, params)

    for _ in range(2):
        code, message = fork_and_report(body)
        assert code == 0
        assert "failed on device 0: CUDA_ERROR_NOT_INITIALIZED" in message
    gemm.check([3, 2, 1])


def test_destructor_that_fails_reports_once(sim, capfd):
    sim.allowed_leaks |= {"pinned", "events"}
    Gemm(sim, "async").warm_up()
    sim.inject("cuMemFreeHost", 999, count=-1)
    sim.inject("cuEventDestroy", 999, count=-1)
    sim.finish_quietly()
    err = capfd.readouterr().err
    assert err.count("cuMemFreeHost failed on device 0") == 1
    assert err.count("cuEventDestroy failed on device 0") == 1
