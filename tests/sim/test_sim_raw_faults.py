# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Each driver call behind a raw copy fails once: a clear error, and the next works."""

import pytest
from raw_calls import Layer, Stream, graph_of

from graphsafe_gg import _testing, raw

pytestmark = pytest.mark.usefixtures("raw_on_the_simulation")

UNKNOWN = 999
MAKE = ["cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuEventCreate"]
LOAD = ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction"]
COPY = ["cuLaunchKernel", "cuStreamGetCaptureInfo", "cuEventRecordWithFlags"]
CAPTURED = [*COPY, "cuUserObjectCreate", "cuGraphRetainUserObject"]
WAIT = ["cuEventQuery", "cuThreadExchangeStreamCaptureMode"]


@pytest.fixture
def layer(sim):
    return Layer(sim)


def copy(layer, stream):
    raw.copy_group_sizes(stream, layer.on_device[2], layer.slot)


def copy_and_wait(layer, stream, sizes=(1, 2, 3)):
    layer.set_sizes(sizes)
    copy(layer, stream)
    assert layer.slot.wait().tolist() == list(sizes)


@pytest.mark.parametrize("function", [*LOAD, *MAKE])
def test_raw_slot_that_cannot_be_made_raises_and_leaks_nothing(sim, function):
    sim.inject(function, UNKNOWN)
    with pytest.raises(RuntimeError, match=rf"{function}.* failed on device 0"):
        raw.Slot(3)
    layer = Layer(sim)
    stream = Stream(sim)
    copy_and_wait(layer, stream)
    sim.drain()
    _testing.destroy_stream(stream.address)


@pytest.mark.parametrize("function", COPY)
def test_raw_copy_that_fails_raises_and_the_next_works(sim, layer, stream, function):
    copy_and_wait(layer, stream)
    sim.inject(function, UNKNOWN)
    with pytest.raises(RuntimeError, match=rf"{function} failed on device 0"):
        copy(layer, stream)
    copy_and_wait(layer, stream, (3, 2, 1))


def test_raw_slot_of_a_copy_without_its_event_is_not_used_again(sim, layer, stream):
    """The write that no event stands behind would reach the next owner's slot."""
    layer.set_sizes((1, 2, 3))
    sim.inject("cuEventRecordWithFlags", UNKNOWN)
    with pytest.raises(RuntimeError, match="cuEventRecordWithFlags failed"):
        copy(layer, stream)
    layer.slot = None
    other = raw.Slot(3)
    sim.drain()
    with pytest.raises(ValueError, match="no copy has run"):
        other.wait()


@pytest.mark.parametrize("function", CAPTURED)
def test_raw_copy_that_fails_in_a_capture_leaves_the_slot(sim, layer, stream, function):
    sim.inject(function, UNKNOWN)

    def enqueue(stream):
        with pytest.raises(RuntimeError, match=rf"{function} failed on device 0"):
            copy(layer, stream)

    with graph_of(sim, stream, enqueue):
        pass
    copy_and_wait(layer, stream)


@pytest.mark.parametrize("function", WAIT)
def test_raw_wait_that_fails_raises_and_the_next_works(sim, layer, stream, function):
    copy_and_wait(layer, stream)
    sim.inject(function, UNKNOWN)
    with pytest.raises(RuntimeError, match=f"{function} failed"):
        layer.slot.wait()
    assert layer.slot.wait().tolist() == [1, 2, 3]


def test_raw_calls_after_a_lost_device_raise_its_error(sim, layer, capfd):
    sim.allowed_leaks |= {"events", "pinned", "user_objects"}
    stream = Stream(sim)
    copy_and_wait(layer, stream)
    sim.lose_device(0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_FAILED"):
            copy(layer, stream)
        with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_FAILED"):
            layer.slot.wait()
    layer.slot = None
    assert capfd.readouterr().err == ""
