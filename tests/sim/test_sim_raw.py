# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The raw interface on a caller's stream, eager and captured."""

import contextlib

import numpy as np
import pytest
from raw_calls import Layer, Stream, graph_of
from simulated import OUT_OF_MEMORY

from graphsafe_gg import _testing, raw

pytestmark = pytest.mark.usefixtures("raw_on_the_simulation")


@contextlib.contextmanager
def stream_on(sim, device=0):
    stream = Stream(sim, device)
    yield stream
    sim.drain()
    _testing.destroy_stream(stream.address)


ALL_SIZES = ([1, 2, 3], [6, 0, 0], [0, 0, 0], [0, 1, 0])


def test_raw_calls_run_eagerly_on_the_callers_stream(sim):
    layer = Layer(sim)
    layer.initialize()
    with stream_on(sim) as stream:
        for sizes in ALL_SIZES:
            layer.set_sizes(sizes)
            layer.enqueue(stream)
            layer.check()


def test_raw_calls_run_on_another_device(simulate):
    """No context is current here, and each device has slots of its own."""
    sim = simulate(num_devices=2)
    layers = [Layer(sim, device=device) for device in (1, 0)]
    for layer in layers:
        layer.initialize()
        with stream_on(sim, layer.device) as stream:
            layer.set_sizes([1 + layer.device, 2, 0])
            layer.enqueue(stream)
            layer.check()
    assert [_testing.device_stats(device)["slots"] for device in (0, 1)] == [1, 1]


def test_raw_graph_is_replayed_with_other_sizes(sim):
    layer = Layer(sim)
    layer.initialize()
    with stream_on(sim) as stream, graph_of(sim, stream, layer.enqueue) as graph:
        exec_ = _testing.instantiate(sim.raw, graph)
        for sizes in ALL_SIZES:
            layer.set_sizes(sizes)
            _testing.launch(sim.raw, exec_, stream.address)
            layer.check()
        sim.drain()
        _testing.destroy_exec(exec_)


def test_raw_capture_only_launches_and_records(sim):
    layer = Layer(sim)
    layer.initialize()
    with stream_on(sim) as stream:
        sim.clear_log()
        with graph_of(sim, stream, layer.enqueue):
            calls = {function for function, *_ in sim.log()}
    assert calls <= {
        "cuCtxGetCurrent",
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
        "cuCtxSetCurrent",
        "cuThreadExchangeStreamCaptureMode",
        "cuStreamBeginCapture",
        "cuStreamEndCapture",
        "cuStreamGetCaptureInfo",
        "cuLaunchKernel",
        "cuEventRecordWithFlags",
        "cuUserObjectCreate",
        "cuGraphRetainUserObject",
    }


def test_raw_slot_may_go_before_the_graphs_that_hold_it(sim):
    """The clone in a parent's executable graph writes to it to the end."""
    layer = Layer(sim)
    layer.initialize()
    with stream_on(sim) as stream:
        with graph_of(sim, stream, layer.enqueue) as graph:
            parent = _testing.clone_into_parent(sim.raw, graph)
        exec_ = _testing.instantiate(sim.raw, parent)
        _testing.destroy_graph(parent)
        layer.set_sizes([1, 2, 3])
        _testing.launch(sim.raw, exec_, stream.address)
        layer.check()
        layer.slot = None
        other = raw.Slot(3)
        layer.set_sizes([3, 2, 1])
        _testing.launch(sim.raw, exec_, stream.address)
        sim.drain()
        with pytest.raises(ValueError, match="no copy has run"):
            other.wait()
        _testing.destroy_exec(exec_)
    assert _testing.device_stats(0)["slots"] == 2


def replay_once(sim):
    layer = Layer(sim)
    layer.initialize()
    with stream_on(sim) as stream:
        with graph_of(sim, stream, layer.enqueue) as graph:
            exec_ = _testing.instantiate(sim.raw, graph)
            _testing.launch(sim.raw, exec_, stream.address)
        layer.check()
        _testing.destroy_exec(exec_)
        sim.drain()


def test_raw_slot_is_used_again_once_nobody_holds_it(sim):
    for _ in range(5):
        replay_once(sim)
    assert _testing.device_stats(0)["slots"] == 1


def test_raw_slot_with_a_pending_copy_is_not_used_again(sim):
    layer = Layer(sim)
    with stream_on(sim) as stream:
        layer.set_sizes([1, 2, 3])
        raw.copy_group_sizes(stream, layer.on_device[2], layer.slot)
        assert not layer.slot.is_done()
        layer.slot = None
        other = raw.Slot(3)
        sim.drain()
        with pytest.raises(ValueError, match="no copy has run"):
            other.wait()


def test_raw_slot_used_again_holds_nothing_of_its_last_owner(sim):
    replay_once(sim)
    with pytest.raises(ValueError, match="no copy has run"):
        raw.Slot(3).wait()
    assert _testing.device_stats(0)["slots"] == 1


def test_raw_wait_is_for_the_copy_alone(sim):
    """What stands behind the copy is still pending when the host has the sizes."""
    layer = Layer(sim)
    layer.initialize()
    with stream_on(sim) as stream:
        layer.set_sizes([1, 2, 3])
        layer.enqueue(stream)
        np.testing.assert_array_equal(layer.slot.wait(), [1, 2, 3])
        pending = np.frombuffer(layer.buffers[5].peek(), np.float32)
        assert np.isnan(pending).any()
    assert _testing.device_stats(0)["eager_copies"] == 1


def test_raw_slots_of_two_owners_are_two(sim):
    """Of odd lengths too: the kernel writes each at a multiple of 16 bytes."""
    slots = [raw.Slot(3, "int8") for _ in range(3)]
    layer = Layer(sim)
    sent = [layer.put(np.array([i, 1, 2], np.int8)) for i in range(3)]
    with stream_on(sim) as stream:
        for sizes, slot in zip(sent, slots, strict=True):
            raw.copy_group_sizes(stream, sizes, slot)
        assert [slot.wait().tolist() for slot in slots] == [[i, 1, 2] for i in range(3)]
    assert _testing.device_stats(0)["copies"] == 3


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64"])
def test_raw_copy_reads_sizes_of_every_width(sim, dtype):
    layer = Layer(sim)
    sizes = layer.put(np.array([3, 1, 2], dtype))
    slot = raw.Slot(3, dtype)
    with stream_on(sim) as stream:
        raw.copy_group_sizes(stream, sizes, slot)
        np.testing.assert_array_equal(slot.wait(), [3, 1, 2])


@pytest.mark.parametrize(
    ("sizes", "error", "text"),
    [
        (((4,), "int32", 0), ValueError, r"have the slot's shape \(3,\); got \(4,\)"),
        (((3,), "int64", 0), TypeError, "have the slot's dtype int32; got int64"),
        (((3,), "int32", 1), ValueError, "be on the slot's device 0; got device 1"),
    ],
)
def test_raw_copy_names_what_does_not_fit_the_slot(sim, sizes, error, text):
    slot = raw.Slot(3)
    with pytest.raises(error, match=f"raw.copy_group_sizes: group_sizes must {text}"):
        raw.copy_group_sizes(0, raw.DeviceArray(64, *sizes), slot)


def test_raw_slot_names_bad_arguments():
    with pytest.raises(ValueError, match=r"raw\.Slot: num_groups must be at least 0"):
        raw.Slot(-1)
    with pytest.raises(TypeError, match=r"raw\.Slot: group_sizes must have an integer"):
        raw.Slot(3, "float32")


def test_raw_slot_out_of_pinned_memory_raises_and_the_next_works(sim):
    sim.inject("cuMemHostAlloc", OUT_OF_MEMORY, nth=2)
    with pytest.raises(MemoryError, match=r"cuMemHostAlloc\(65536 bytes\) failed"):
        raw.Slot(3)
    raw.Slot(3)
