# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A GPU through cuda-python, without XLA: memory, streams, captures and graphs."""

import contextlib

import numpy as np
from cuda.bindings import driver

from graphsafe_gg import raw

THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
GLOBAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL


def call(function, *args):
    """The result of a driver call that must succeed."""
    status, *results = function(*args)
    assert int(status) == 0, f"{function.__name__} returned {status!r}"
    return results[0] if len(results) == 1 else tuple(results)


class Stream:
    def __init__(self):
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.handle = call(driver.cuStreamCreate, flags)

    def __cuda_stream__(self):
        return 0, int(self.handle)

    def wait_for(self, other: "Stream") -> None:
        """Behind what the other holds; inside a capture this forks or joins."""
        flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = call(driver.cuEventCreate, flags)
        call(driver.cuEventRecord, event, other.handle)
        call(driver.cuStreamWaitEvent, self.handle, event, 0)
        call(driver.cuEventDestroy, event)

    def synchronize(self) -> None:
        call(driver.cuStreamSynchronize, self.handle)


class Gpu:
    """The primary context of device 0, and an allocation of its own for each array."""

    def __init__(self):
        call(driver.cuInit, 0)
        device = call(driver.cuDeviceGet, 0)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))
        self._allocated = []

    def put(self, array: np.ndarray) -> raw.DeviceArray:
        address = int(call(driver.cuMemAlloc, max(array.nbytes, 1)))
        self._allocated.append(address)
        on_device = raw.DeviceArray(address, array.shape, array.dtype)
        self.write(on_device, array)
        return on_device

    def write(self, on_device: raw.DeviceArray, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array, on_device.dtype)
        source = array.ctypes.data
        if array.nbytes:
            call(driver.cuMemcpyHtoD, on_device.address, source, array.nbytes)

    def fill_nan(self, on_device: raw.DeviceArray, stream: Stream) -> None:
        """Every byte 0xff, which is NaN in each float type."""
        num_bytes = on_device.size_bytes
        if num_bytes:
            args = (on_device.address, 0xFF, num_bytes, stream.handle)
            call(driver.cuMemsetD8Async, *args)

    def read(self, on_device: raw.DeviceArray) -> np.ndarray:
        array = np.empty(on_device.shape, on_device.dtype)
        if array.nbytes:
            target = array.ctypes.data
            call(driver.cuMemcpyDtoH, target, on_device.address, array.nbytes)
        return array

    def close(self) -> None:
        call(driver.cuCtxSynchronize)
        for address in self._allocated:
            call(driver.cuMemFree, address)


class Graph:
    def __init__(self, handle):
        self.handle = handle

    @classmethod
    def of_children(cls, *children: "Graph") -> "Graph":
        """Clones of the graphs, one after the other."""
        parent = cls(call(driver.cuGraphCreate, 0))
        before = []
        for child in children:
            args = (parent.handle, before, len(before), child.handle)
            before = [call(driver.cuGraphAddChildGraphNode, *args)]
        return parent

    def node_types(self) -> list[str]:
        _, count = call(driver.cuGraphGetNodes, self.handle)
        nodes, _ = call(driver.cuGraphGetNodes, self.handle, count)
        prefix = "CU_GRAPH_NODE_TYPE_"
        types = (call(driver.cuGraphNodeGetType, node) for node in nodes)
        return sorted(kind.name.removeprefix(prefix) for kind in types)

    def destroy(self) -> None:
        call(driver.cuGraphDestroy, self.handle)


class Executable:
    """An instantiated graph. The graph itself may go."""

    def __init__(self, graph: Graph):
        self.handle = call(driver.cuGraphInstantiate, graph.handle, 0)

    def launch(self, stream: Stream) -> None:
        call(driver.cuGraphLaunch, self.handle, stream.handle)

    def update(self, graph: Graph) -> None:
        call(driver.cuGraphExecUpdate, self.handle, graph.handle)

    def destroy(self) -> None:
        call(driver.cuGraphExecDestroy, self.handle)


@contextlib.contextmanager
def capture(stream: Stream, mode=THREAD_LOCAL):
    """Yields a list that holds the graph at the end."""
    captured: list[Graph] = []
    call(driver.cuStreamBeginCapture, stream.handle, mode)
    yield captured
    captured.append(Graph(call(driver.cuStreamEndCapture, stream.handle)))


def capture_of(stream: Stream, enqueue) -> Graph:
    with capture(stream) as captured:
        enqueue(stream)
    return captured[0]
