# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that read through tensor maps, which the host encodes at each execute."""

import ml_dtypes
import numpy as np
import pytest
from simulated import expected_gemm, gemm_call

from graphsafe_gg import _testing

ENCODE, LAUNCH = "cuTensorMapEncodeTiled", "cuLaunchKernel"
UNKNOWN = 999
G, M, K, N = 2, 400, 16, 8


class ManyRows:
    """A bfloat16 product with so many rows a group that it is one of wgmma."""

    def __init__(self, sim, *, transpose_rhs=False, num_layers=0, lhs_offset=0):
        rng = np.random.default_rng(0)
        bf16 = ml_dtypes.bfloat16
        inner = (N, K) if transpose_rhs else (K, N)
        stack = ((num_layers,) if num_layers else ()) + (G, *inner)
        self.sim, self.transpose_rhs = sim, transpose_rhs
        self.lhs_value = rng.standard_normal((M, K)).astype(bf16)
        self.rhs_value = rng.standard_normal(stack).astype(bf16)
        p = self.program = _testing.Program()
        self.lhs = p.param("bfloat16", [M, K])
        self.rhs = p.param("bfloat16", list(stack))
        self.sizes = p.param("int32", [G])
        self.out = p.result("float32", [M, N])
        options = {"layer": num_layers - 1} if num_layers else {}
        gemm_call(
            p,
            "device",
            [self.lhs, self.rhs, self.sizes],
            self.out,
            transpose_rhs=transpose_rhs,
            **options,
        )
        self.executable = _testing.compile(sim.raw, p)

    def check(self, sizes):
        params = {
            self.lhs: self.sim.put(self.lhs_value),
            self.rhs: self.sim.put(self.rhs_value),
            self.sizes: self.sim.put(np.asarray(sizes, np.int32)),
        }
        got = self.executable.run(0, params)[self.out].read()
        rhs = self.rhs_value.reshape(-1, *self.rhs_value.shape[-3:])[-1]
        want = expected_gemm(self.lhs_value, rhs, sizes, self.transpose_rhs)
        np.testing.assert_allclose(
            np.frombuffer(got, np.float32).reshape(M, N), want, 1e-5, 1e-5
        )


@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_tensor_maps_of_both_operands_come_before_the_launch(sim, transpose_rhs):
    product = ManyRows(sim, transpose_rhs=transpose_rhs)
    product.check([300, 50])
    calls = sim.calls(functions={ENCODE, LAUNCH})
    assert [name for name, _ in calls] == [ENCODE, ENCODE, LAUNCH]


def test_tensor_maps_are_captured_with_the_launch(sim):
    product = ManyRows(sim)
    for sizes in ([300, 50], [0, 400], [400, 0], [7, 9]):
        product.check(sizes)
    stages = {stage for _, stage in sim.calls(functions={ENCODE})}
    assert stages == {"execute-eager", "execute-capture"}


def test_tensor_maps_cover_all_layers(sim):
    ManyRows(sim, num_layers=3).check([100, 200])


def test_tensor_maps_that_fail_fail_the_call(sim):
    sim.inject(ENCODE, UNKNOWN, stage="execute-eager")
    with pytest.raises(_testing.ExecutionError, match=f"{ENCODE} failed on device 0"):
        ManyRows(sim).check([300, 50])
