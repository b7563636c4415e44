# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""bias, group_offset and layer of the raw interface, eager and replayed."""

import numpy as np
import pytest
from raw_calls import graph_of
from simulated import expected_drhs

from graphsafe_gg import _testing, raw
from graphsafe_gg.api.call_site import call_site

pytestmark = pytest.mark.usefixtures("raw_on_the_simulation")

M, K, N = 9, 4, 3
ALL, LOCAL, LAYERS = 5, 2, 3
SIZES = np.array([1, 3, 0, 2, 1], np.int32)
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
OFFSETS = range(ALL - LOCAL + 1)


class Operands:
    """Two of five groups, in each of three layers, on simulated buffers."""

    def __init__(self, sim, transpose_rhs=False):
        rng = np.random.default_rng(0)
        self.sim, self.transpose_rhs, self.buffers = sim, transpose_rhs, {}
        shapes = {
            "lhs": (M, K),
            "rhs": (LAYERS, LOCAL, *((N, K) if transpose_rhs else (K, N))),
            "bias": (LAYERS, LOCAL, N),
            "dout": (M, N),
        }
        self.host = {
            name: rng.standard_normal(shape, np.float32)
            for name, shape in shapes.items()
        }
        self.on_device = {name: self.put(name, x) for name, x in self.host.items()}
        self.sizes = self.put("sizes", SIZES)
        self.offset = self.put("offset", np.array(0, np.int64))
        self.layer = self.put("layer", np.array([0], np.uint8))

    def put(self, name, array):
        self.buffers[name] = self.sim.put(array)
        self.sim.drain()  # the device's own stream wrote it
        return raw.DeviceArray(self.buffers[name].address, array.shape, array.dtype)

    def out(self, shape):
        return self.put("out", np.full(shape, np.nan, np.float32))

    def read(self, shape):
        self.sim.drain()
        content = self.buffers["out"].peek()
        return np.frombuffer(content, np.float32).reshape(shape)

    def set(self, offset, layer):
        self.buffers["offset"].poke(np.int64(offset).tobytes())
        self.buffers["layer"].poke(np.uint8(layer).tobytes())

    def gemm(self, stream, out, **options):
        arrays = self.on_device["lhs"], self.on_device["rhs"], self.sizes, out
        options = {
            "bias": self.on_device["bias"],
            "transpose_rhs": self.transpose_rhs,
            "name": "operands",
            **options,
        }
        raw.initialize_grouped_gemm(*arrays, **options)
        return lambda: raw.grouped_gemm(stream, *arrays, **options)

    def expected(self, offset, layer):
        """Groups that do not exist have no rows; a layer that does not, no groups."""
        rhs = self.host["rhs"]
        rhs = rhs.swapaxes(2, 3) if self.transpose_rhs else rhs
        out = np.zeros((M, N), np.float32)
        for group in range(LOCAL if layer < LAYERS else 0):
            if 0 <= group + offset < ALL:
                rows = slice(STARTS[group + offset], STARTS[group + offset + 1])
                out[rows] = self.host["lhs"][rows] @ rhs[layer, group]
                out[rows] += self.host["bias"][layer, group]
        return out


@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_raw_operands_on_the_host_are_fixed_in_the_launch(sim, stream, transpose_rhs):
    operands = Operands(sim, transpose_rhs)
    for offset in OFFSETS:
        for layer in range(LAYERS):
            out = operands.out((M, N))
            operands.gemm(stream, out, group_offset=offset, layer=layer)()
            want = operands.expected(offset, layer)
            np.testing.assert_allclose(operands.read((M, N)), want, 1e-5, 1e-6)


def test_raw_operands_on_the_device_are_read_at_each_replay(sim, stream):
    operands = Operands(sim)
    out = operands.out((M, N))
    indices = {"group_offset": operands.offset, "layer": operands.layer}
    call = operands.gemm(stream, out, **indices)
    with graph_of(sim, stream, lambda _: call()) as graph:
        exec_ = _testing.instantiate(sim.raw, graph)
        for offset in OFFSETS:
            for layer in range(LAYERS):
                operands.set(offset, layer)
                _testing.launch(sim.raw, exec_, stream.address)
                want = operands.expected(offset, layer)
                np.testing.assert_allclose(operands.read((M, N)), want, 1e-5, 1e-6)
        sim.drain()
        _testing.destroy_exec(exec_)


@pytest.mark.parametrize(
    ("offset", "layer", "text"),
    [
        (-1, 0, "group_offset must be in [0, 3]; got -1"),
        (4, 0, "group_offset must be in [0, 3]; got 4"),
        (0, 3, "layer must be in [0, 2]; got 3"),
    ],
)
def test_raw_operands_out_of_range_are_recorded(sim, stream, offset, layer, text):
    operands = Operands(sim)
    out = operands.out((M, N))
    indices = {"group_offset": operands.offset, "layer": operands.layer}
    operands.set(offset, layer)
    operands.gemm(stream, out, **indices)()
    want = operands.expected(offset, layer)
    np.testing.assert_allclose(operands.read((M, N)), want, 1e-5, 1e-6)
    error = _testing.size_error(0, call_site("operands") % 2**64)
    assert text in error


def test_raw_operands_apart(sim, stream):
    """A bias alone, over all groups and no stack."""
    operands = Operands(sim)
    lhs, out = operands.on_device["lhs"], operands.out((M, N))
    rhs = np.concatenate([*operands.host["rhs"]])[:ALL]
    bias = np.concatenate([*operands.host["bias"]])[:ALL]
    arrays = lhs, operands.put("all", rhs), operands.sizes, out
    options = {"bias": operands.put("bias of all", bias)}
    raw.initialize_grouped_gemm(*arrays, **options)
    raw.grouped_gemm(stream, *arrays, **options)
    group = np.repeat(np.arange(ALL), SIZES)
    want = np.zeros((M, N), np.float32)
    rows = operands.host["lhs"][: len(group)]
    want[: len(group)] = np.einsum("mk,mkn->mn", rows, rhs[group]) + bias[group]
    np.testing.assert_allclose(operands.read((M, N)), want, 1e-5, 1e-6)


@pytest.mark.parametrize("is_on_device", [False, True])
def test_raw_operands_of_the_weight_gradient(sim, stream, is_on_device):
    operands = Operands(sim)
    lhs, dout = operands.on_device["lhs"], operands.on_device["dout"]
    want = expected_drhs(operands.host["lhs"], operands.host["dout"], SIZES)
    for offset in OFFSETS:
        out = operands.out((LOCAL, K, N))
        operands.set(offset, 0)
        index = operands.offset if is_on_device else offset
        arrays = lhs, dout, operands.sizes, out
        raw.initialize_drhs(*arrays, group_offset=index)
        raw.drhs(stream, *arrays, group_offset=index)
        got = operands.read((LOCAL, K, N))
        np.testing.assert_allclose(got, want[offset : offset + LOCAL], 1e-5, 1e-6)
