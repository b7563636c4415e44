# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What a caller of the raw interface holds, on the simulated driver."""

import contextlib

import numpy as np
from simulated import expected_drhs, expected_gemm

from graphsafe_gg import _testing, raw


class Stream:
    def __init__(self, sim, device=0):
        self.sim, self.device = sim, device
        self.address = _testing.create_stream(sim.raw, device)

    def __cuda_stream__(self):
        return 0, self.address


class Layer:
    """Sizes, their copy into a slot, and both products on simulated buffers."""

    def __init__(self, sim, *, m=6, k=4, n=3, g=3, device=0):
        rng = np.random.default_rng(0)
        self.sim, self.device, self.buffers = sim, device, []
        self.lhs, self.dout = (rng.standard_normal((m, c), np.float32) for c in (k, n))
        self.rhs = rng.standard_normal((g, k, n), np.float32)
        self.sizes = np.zeros(g, np.int32)
        self.on_device = [
            self.put(array) for array in (self.lhs, self.rhs, self.sizes, self.dout)
        ]
        self.out = self.put(np.full((m, n), np.nan, np.float32))
        self.drhs = self.put(np.full((g, k, n), np.nan, np.float32))
        self.slot = raw.Slot(g, "int32", device=device, name="raw.sim")

    def put(self, array):
        self.buffers.append(self.sim.put(array, self.device))
        self.sim.drain()  # the device's own stream wrote it
        address = self.buffers[-1].address
        return raw.DeviceArray(address, array.shape, array.dtype, self.device)

    def initialize(self):
        lhs, rhs, sizes, dout = self.on_device
        raw.initialize_grouped_gemm(lhs, rhs, sizes, self.out)
        raw.initialize_drhs(lhs, dout, sizes, self.drhs)

    def enqueue(self, stream):
        lhs, rhs, sizes, dout = self.on_device
        raw.copy_group_sizes(stream, sizes, self.slot)
        raw.grouped_gemm(stream, lhs, rhs, sizes, self.out)
        raw.drhs(stream, lhs, dout, sizes, self.drhs)

    def set_sizes(self, sizes):
        self.sizes = np.array(sizes, np.int32)
        self.buffers[2].poke(self.sizes.tobytes())

    def check(self):
        """Host and device have these sizes' values."""
        np.testing.assert_array_equal(self.slot.wait(), self.sizes)
        self.sim.drain()
        for buffer, array, want in (
            (self.buffers[4], self.out, expected_gemm(self.lhs, self.rhs, self.sizes)),
            (
                self.buffers[5],
                self.drhs,
                expected_drhs(self.lhs, self.dout, self.sizes),
            ),
        ):
            got = np.frombuffer(buffer.peek(), np.float32).reshape(array.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@contextlib.contextmanager
def graph_of(sim, stream, enqueue):
    """What `enqueue` puts on the stream, as a graph."""
    _testing.begin_capture(sim.raw, stream.address, stream.device)
    enqueue(stream)
    graph = _testing.end_capture(sim.raw, stream.address, stream.device)
    yield graph
    _testing.destroy_graph(graph)
