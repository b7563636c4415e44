# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""bias, group_offset and layer through the real handlers: read on the device, checked
on the host where it knows them."""

import numpy as np
import pytest
from simulated import (
    ALLOCATING,
    DRHS,
    WAITING,
    WITH_BIAS,
    WITH_GROUP_OFFSET,
    WITH_LAYER,
    WITH_TICKET,
    copy_call,
    expected_drhs,
    gemm_call,
    product_attributes,
)

from graphsafe_gg import _testing

M, K, N = 9, 4, 3
ALL, LOCAL, LAYERS = 5, 2, 3
SIZES = [1, 3, 0, 2, 1]
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
MODES = ["device", "sync", "async"]
CAPTURED = {"device": 1, "sync": 0, "async": 0}


class LocalGemm:
    """A product of two of five groups, in one of three layers, with a bias; offset and
    layer are buffers that change between runs."""

    def __init__(self, sim, mode, site=1):
        rng = np.random.default_rng(0)
        self.sim, self.mode, self.site = sim, mode, site
        self.arrays = [
            rng.standard_normal(shape, np.float32)
            for shape in ((M, K), (LAYERS, LOCAL, K, N), (LAYERS, LOCAL, N))
        ]
        p = _testing.Program()
        lhs, rhs, bias = (p.param("float32", a.shape) for a in self.arrays)
        sizes, offset = p.param("int32", [ALL]), p.param("int64", [])
        layer, self.out = p.param("uint8", [1]), p.result("float32", [M, N])
        inputs, bits = [lhs, rhs, sizes], WITH_BIAS | WITH_GROUP_OFFSET | WITH_LAYER
        if mode == "async":
            inputs.append(copy_call(p, sizes, ALL))
            bits |= WITH_TICKET
        gemm_call(
            p, mode, [*inputs, bias, offset, layer], self.out, site=site, operands=bits
        )
        self.executable = _testing.compile(sim.raw, p)
        self.offset, self.layer = sim.put(np.int64([0])), sim.put(np.uint8([0]))
        self.params = {
            lhs: sim.put(self.arrays[0]),
            rhs: sim.put(self.arrays[1]),
            bias: sim.put(self.arrays[2]),
            sizes: sim.put(np.array(SIZES, np.int32)),
            offset: self.offset,
            layer: self.layer,
        }

    def run(self, offset, layer):
        self.offset.write(np.int64(offset).tobytes())
        self.layer.write(np.uint8(layer).tobytes())
        out = self.executable.run(0, self.params)[self.out].read()
        return np.frombuffer(out, np.float32).reshape(M, N)

    def expected(self, offset, layer):
        """Groups that do not exist have no rows; a layer that does not, no groups."""
        lhs, rhs, bias = self.arrays
        out = np.zeros((M, N), np.float32)
        for group in range(LOCAL if layer < LAYERS else 0):
            if 0 <= group + offset < ALL:
                rows = slice(STARTS[group + offset], STARTS[group + offset + 1])
                out[rows] = lhs[rows] @ rhs[layer, group] + bias[layer, group]
        return out

    def check(self, offset, layer):
        np.testing.assert_allclose(
            self.run(offset, layer), self.expected(offset, layer), 1e-5, 1e-6
        )

    @property
    def stats(self):
        return _testing.site_stats(0, self.site)


@pytest.mark.parametrize("mode", MODES)
def test_operands_follow_the_buffers_at_each_run(sim, mode):
    gemm = LocalGemm(sim, mode)
    for offset in range(ALL - LOCAL + 1):
        for layer in range(LAYERS):
            gemm.check(offset, layer)
    assert gemm.stats["captured_calls"] == CAPTURED[mode]
    assert _testing.size_error(0, gemm.site) is None


def test_operands_are_read_on_the_device_in_one_launch(sim):
    gemm = LocalGemm(sim, "device")
    for layer in (0, 2, 1):
        sim.clear_log()
        gemm.check(1, layer)
        assert not sim.calls(functions=WAITING | {"cuMemcpyDtoHAsync"})
        assert len(sim.calls(functions={"cuLaunchKernel"})) <= 1


BAD_INDICES = [
    (-1, 0, "group_offset must be in [0, 3]; got -1"),
    (4, 0, "group_offset must be in [0, 3]; got 4"),
    (5, 0, "group_offset must be in [0, 3]; got 5"),
    (-(2**63), 0, "group_offset must be in [0, 3]; got -9223372036854775808"),
    (2**63 - 1, 0, "group_offset must be in [0, 3]; got 9223372036854775807"),
    (0, 3, "layer must be in [0, 2]; got 3"),
    (0, 255, "layer must be in [0, 2]; got 255"),
]


@pytest.mark.parametrize(("offset", "layer", "text"), BAD_INDICES)
def test_operands_out_of_range_are_recorded_by_the_device(sim, offset, layer, text):
    """Nothing outside the operands is touched: the simulation would see it."""
    gemm = LocalGemm(sim, "device")
    gemm.check(1, 1)
    gemm.check(offset, layer)
    assert text in _testing.size_error(0, gemm.site)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize(("offset", "layer", "text"), BAD_INDICES)
def test_operands_out_of_range_raise_before_any_launch(sim, mode, offset, layer, text):
    gemm = LocalGemm(sim, mode)
    gemm.check(1, 1)
    sim.clear_log()
    with pytest.raises(_testing.ExecutionError) as raised:
        gemm.run(offset, layer)
    assert text in str(raised.value)
    copies = 1 if mode == "async" else 0  # the early copy is a kernel too
    assert len(sim.calls(functions={"cuLaunchKernel"})) == copies
    gemm.check(0, 2)


def test_operands_that_are_traced_make_async_mode_wait_and_count_it(sim):
    gemm = LocalGemm(sim, "async")
    gemm.check(0, 0)
    assert gemm.stats["fallbacks"] == {"traced group_offset or layer": 1}
    assert gemm.stats["host_waits"] == 3


def test_operands_without_groups_are_read_into_reserved_memory(sim):
    """There are no sizes to reserve for, and a layer to wait for."""
    p = _testing.Program()
    lhs, rhs = p.param("float32", [M, K]), p.param("float32", [LAYERS, 0, K, N])
    sizes, layer = p.param("int32", [0]), p.param("int32", [])
    out = p.result("float32", [M, N])
    gemm_call(p, "sync", [lhs, rhs, sizes, layer], out, operands=WITH_LAYER)
    params = {
        lhs: sim.put(np.ones((M, K), np.float32)),
        rhs: sim.put(np.zeros(1, np.float32)),
        sizes: sim.put(np.zeros(1, np.int32)),
        layer: sim.put(np.int32([1])),
    }
    got = _testing.compile(sim.raw, p).run(0, params)[out].read()
    assert not np.frombuffer(got, np.float32).any()
    assert {stage for _, stage in sim.calls(functions=ALLOCATING)} == {"initialize"}
    assert _testing.site_stats(0, 1)["host_waits"] == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("offset", range(ALL - LOCAL + 1))
def test_operands_of_the_weight_gradient(sim, mode, offset):
    """The static form: the program holds the offset."""
    rng = np.random.default_rng(1)
    lhs_value = rng.standard_normal((M, K), np.float32)
    dout_value = rng.standard_normal((M, N), np.float32)
    p = _testing.Program()
    lhs, dout = p.param("float32", [M, K]), p.param("float32", [M, N])
    sizes, out = p.param("int32", [ALL]), p.result("float32", [LOCAL, K, N])
    inputs = [lhs, dout, sizes]
    if mode == "async":
        inputs.append(copy_call(p, sizes, ALL))
    p.call(
        DRHS.format(mode), inputs, [out], product_attributes(mode, group_offset=offset)
    )
    params = {
        lhs: sim.put(lhs_value),
        dout: sim.put(dout_value),
        sizes: sim.put(np.array(SIZES, np.int32)),
    }
    executable = _testing.compile(sim.raw, p)
    wanted = expected_drhs(lhs_value, dout_value, SIZES)[offset : offset + LOCAL]
    for _ in range(3):
        got = np.frombuffer(executable.run(0, params)[out].read(), np.float32)
        np.testing.assert_allclose(got.reshape(LOCAL, K, N), wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("offset", [-2, -1, 4, 6])
def test_operands_of_the_weight_gradient_out_of_range(sim, offset):
    """Groups that do not exist have a gradient of zeros."""
    lhs_value, dout_value = np.ones((M, K), np.float32), np.ones((M, N), np.float32)
    p = _testing.Program()
    lhs, dout = p.param("float32", [M, K]), p.param("float32", [M, N])
    sizes, index = p.param("int32", [ALL]), p.param("int32", [1])
    out = p.result("float32", [LOCAL, K, N])
    attributes = product_attributes(operands=WITH_GROUP_OFFSET)
    p.call(DRHS.format("device"), [lhs, dout, sizes, index], [out], attributes)
    params = {
        lhs: sim.put(lhs_value),
        dout: sim.put(dout_value),
        sizes: sim.put(np.array(SIZES, np.int32)),
        index: sim.put(np.array([offset], np.int32)),
    }
    wanted = np.zeros((LOCAL, K, N), np.float32)
    for group in range(LOCAL):
        if 0 <= group + offset < ALL:
            wanted[group] = SIZES[group + offset]
    executable = _testing.compile(sim.raw, p)
    for _ in range(2):
        got = np.frombuffer(executable.run(0, params)[out].read(), np.float32)
        np.testing.assert_array_equal(got.reshape(LOCAL, K, N), wanted)
    assert f"got {offset}" in _testing.size_error(0, 1)


def test_operands_keep_known_sizes_off_cublaslt(simulate):
    """At sizes and types that it takes otherwise."""
    sizes, options = [4096] * 4, {"m": 1 << 14, "k": 4096, "n": 4096}
    assert _testing.host_path(sizes, **options) == "cublaslt"
    for operand in ({"has_bias": True}, {"num_groups": 2}, {"num_layers": 2}):
        path = _testing.host_path(sizes, **options, **operand)
        assert path == "kernels: bias, group_offset or layer"


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"operands": WITH_BIAS}, "an operand is missing"),
        ({"layer": 0}, "rhs must have rank 4"),
        ({"group_offset": 3}, "group_offset must be in [0, 2]; got 3"),
    ],
)
def test_operands_that_a_program_lacks(sim, attributes, text):
    p = _testing.Program()
    inputs = [p.param("float32", [M, K]), p.param("float32", [3, K, N])]
    inputs.append(p.param("int32", [ALL]))
    out = p.result("float32", [M, N])
    gemm_call(p, "device", inputs, out, **({"group_offset": 0} | attributes))
    executable = _testing.compile(sim.raw, p)
    arrays = [
        np.zeros((M, K), np.float32),
        np.zeros((3, K, N), np.float32),
        np.zeros(ALL, np.int32),
    ]
    params = dict(zip(inputs, map(sim.put, arrays), strict=True))
    with pytest.raises(_testing.ExecutionError) as raised:
        executable.run(0, params)
    assert text in str(raised.value)
