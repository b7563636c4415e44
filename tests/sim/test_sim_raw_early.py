# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that may start before the one in front of them on the stream has ended."""

import pytest
from raw_calls import Layer, Stream, graph_of

from graphsafe_gg import _testing, raw

pytestmark = pytest.mark.usefixtures("raw_on_the_simulation")

EARLY, PLAIN = "cuLaunchKernelEx", "cuLaunchKernel"
UNKNOWN = 999
ALL_SIZES = ([1, 2, 3], [6, 0, 0], [0, 0, 0], [0, 1, 0])


class EarlyLayer(Layer):
    """Its forward product may start before the copy of the sizes has ended."""

    def enqueue(self, stream):
        lhs, rhs, sizes, dout = self.on_device
        raw.copy_group_sizes(stream, sizes, self.slot)
        raw.grouped_gemm(stream, lhs, rhs, sizes, self.out, starts_early=True)
        raw.drhs(stream, lhs, dout, sizes, self.drhs)


def run(sim):
    """The launches of a layer, once it is checked, eager and replayed."""
    layer = EarlyLayer(sim)
    layer.initialize()
    stream = Stream(sim)
    sim.clear_log()
    for sizes in ALL_SIZES:
        layer.set_sizes(sizes)
        layer.enqueue(stream)
        layer.check()
    with graph_of(sim, stream, layer.enqueue) as graph:
        exec_ = _testing.instantiate(sim.raw, graph)
        for sizes in ALL_SIZES:
            layer.set_sizes(sizes)
            _testing.launch(sim.raw, exec_, stream.address)
            layer.check()
        sim.drain()
        _testing.destroy_exec(exec_)
    calls = [function for function, *_ in sim.log() if function in (EARLY, PLAIN)]
    _testing.destroy_stream(stream.address)
    return calls


def test_raw_early_product_is_launched_so(sim):
    # The publish kernel of the copy, the product, its weight gradient.
    assert run(sim) == [PLAIN, EARLY, PLAIN] * (len(ALL_SIZES) + 1)


@pytest.mark.parametrize("arch", [80, 89, 100, 120])
def test_raw_early_product_waits_where_kernels_cannot(simulate, arch):
    assert EARLY not in run(simulate(arch=arch))


def test_raw_early_launch_that_fails_says_so(sim):
    layer = EarlyLayer(sim)
    layer.initialize()
    stream = Stream(sim)
    sim.inject(EARLY, UNKNOWN)
    with pytest.raises(RuntimeError, match=EARLY):
        layer.enqueue(stream)
    sim.drain()
    layer.enqueue(stream)
    layer.check()
    _testing.destroy_stream(stream.address)
