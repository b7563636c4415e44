# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""One product whose sizes the host knows, on the simulated driver."""

import ml_dtypes
import numpy as np
from simulated import (
    DRHS,
    copy_call,
    expected_drhs,
    expected_gemm,
    gemm_call,
    product_attributes,
)

from graphsafe_gg import _testing

M, N = 40, 16
PRODUCTS = ["gkn", "gnk", "drhs"]
SIX_GROUPS = [0, 1, 2, 3, 4, 5, 6, 0, 0]
NAMES = {np.float32: "float32", ml_dtypes.bfloat16: "bfloat16"}


class Call:
    """One product with known sizes, between a reader of the result's old contents and
    a reader of its new ones."""

    def __init__(
        self,
        sim,
        product,
        mode,
        *,
        g,
        k=8,
        dtype=np.float32,
        site=1,
        on=0,
        seed=0,
        **options,
    ):
        rng = np.random.default_rng(seed)
        self.sim, self.product, self.on, self.site, self.g = sim, product, on, site, g
        is_drhs, self.dtype = product == "drhs", dtype
        shapes = {"gkn": (g, k, N), "gnk": (g, N, k), "drhs": (M, N)}
        self.out_shape = (g, k, N) if is_drhs else (M, N)
        self.arrays = [
            rng.standard_normal(shape, np.float32).astype(dtype)
            for shape in ((M, k), shapes[product], self.out_shape)
        ]
        self.buffers = [sim.put(array, on) for array in self.arrays]

        name = NAMES[dtype]
        p = self.program = _testing.Program()
        operands = [p.param(name, array.shape) for array in self.arrays[:2]]
        old = p.param(name, self.out_shape)
        sizes = p.param("int32", [g])
        self.params = [*operands, old, sizes]
        self.before = p.result(name, self.out_shape)
        out = p.result(name, self.out_shape, donated=old)
        self.after = p.result(name, self.out_shape)
        inputs = [*operands, sizes]
        if mode == "async":
            inputs.append(self.add_copy(p, sizes))
        p.kernel("gg_test_delay", [], [30], capturable=False)
        p.copy(old, self.before, capturable=False)
        if is_drhs:
            attributes = product_attributes(mode, site=site)
            p.call(DRHS.format(mode), inputs, [out], attributes)
        else:
            transpose = product == "gnk"
            gemm_call(p, mode, inputs, out, site=site, transpose_rhs=transpose)
        p.copy(out, self.after, capturable=False)
        self.executable = _testing.compile(sim.raw, p, **options)

    def add_copy(self, program, sizes):
        return copy_call(program, sizes, self.g)

    def run(self, sizes):
        sizes = self.sim.put(np.asarray(sizes, np.int32), self.on)
        self.buffers[2].write(self.arrays[2].tobytes())
        buffers = [*self.buffers, sizes]
        return self.executable.run(
            self.on, dict(zip(self.params, buffers, strict=True))
        )

    def read(self, buffer):
        return np.frombuffer(buffer.read(), self.dtype).reshape(self.out_shape)

    def expected(self, sizes):
        lhs, rhs, _ = self.arrays
        if self.product == "drhs":
            return expected_drhs(lhs.astype(np.float32), rhs.astype(np.float32), sizes)
        return expected_gemm(lhs, rhs, sizes, self.product == "gnk")

    def check(self, sizes):
        results = self.run(sizes)
        np.testing.assert_array_equal(self.read(results[self.before]), self.arrays[2])
        tolerance = 1e-5 if self.dtype == np.float32 else 2e-2
        np.testing.assert_allclose(
            self.read(results[self.after]).astype(np.float32),
            self.expected(sizes),
            rtol=tolerance,
            atol=tolerance,
        )

    @property
    def launches(self):
        return _testing.host_launch_stats(self.on, self.site)["host_size_launches"]

    @property
    def guards_tripped(self):
        return _testing.host_launch_stats(self.on, self.site)["guards_tripped"]


class StaleCall(Call):
    """The ticket is overwritten by another copy's between its copy and the product."""

    def add_copy(self, program, sizes):
        self.stale = program.param("int32", [self.g])
        ticket = copy_call(program, self.stale, self.g)
        program.copy(copy_call(program, sizes, self.g), ticket)
        return ticket

    def run_stale(self, sizes, stale):
        buffers = [*self.buffers, self.sim.put(np.asarray(sizes, np.int32))]
        params = dict(zip(self.params, buffers, strict=True))
        params[self.stale] = self.sim.put(np.asarray(stale, np.int32))
        return self.executable.run(self.on, params)
