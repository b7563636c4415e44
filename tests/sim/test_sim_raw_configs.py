# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that the caller of the raw interface names."""

import ml_dtypes
import numpy as np
import pytest
from simulated import expected_gemm

from graphsafe_gg import raw

pytestmark = pytest.mark.usefixtures("raw_on_the_simulation")

G, K, N = 2, 16, 8
FEW, MANY = ([3, 2], 6), ([300, 50], 400)


class Product:
    """A bfloat16 product on simulated buffers."""

    def __init__(self, sim, sizes, m):
        rng = np.random.default_rng(0)
        bf16 = ml_dtypes.bfloat16
        lhs = rng.standard_normal((m, K)).astype(bf16)
        rhs = rng.standard_normal((G, K, N)).astype(bf16)
        self.sim, self.want = sim, expected_gemm(lhs, rhs, sizes)
        out = np.full((m, N), np.nan, np.float32)
        self.buffers = [
            sim.put(x) for x in (lhs, rhs, np.asarray(sizes, np.int32), out)
        ]
        sim.drain()
        self.arrays = [
            raw.DeviceArray(buffer.address, x.shape, x.dtype)
            for buffer, x in zip(
                self.buffers, (lhs, rhs, np.zeros(G, np.int32), out), strict=True
            )
        ]

    def configs(self):
        return raw.grouped_gemm_configs(*self.arrays)

    def check(self):
        self.sim.drain()
        got = np.frombuffer(self.buffers[3].peek(), np.float32)
        np.testing.assert_allclose(got.reshape(self.want.shape), self.want, 1e-5, 1e-5)
        self.buffers[3].poke(np.full_like(self.want, np.nan).tobytes())


@pytest.mark.parametrize("sizes", [FEW, MANY], ids=["few rows", "many rows"])
def test_raw_configs_all_compute_the_product(sim, stream, sizes):
    product = Product(sim, *sizes)
    configs = product.configs()
    assert len(configs) > 2
    assert len(set(configs)) == len(configs)
    for config in configs:
        raw.initialize_grouped_gemm(*product.arrays, config=config)
        raw.grouped_gemm(stream, *product.arrays, config=config)
        product.check()


def test_raw_configs_begin_with_the_one_that_is_chosen(sim, stream):
    product = Product(sim, *MANY)
    first, second, *_ = product.configs()
    raw.initialize_grouped_gemm(*product.arrays)
    raw.grouped_gemm(stream, *product.arrays, config=first)
    product.check()
    with pytest.raises(RuntimeError, match=second):
        raw.grouped_gemm(stream, *product.arrays, config=second)


def test_raw_config_that_does_not_exist_names_those_that_do(sim, stream):
    product = Product(sim, *FEW)
    of_many = Product(sim, *MANY).configs()[0]
    for name in ("fast", of_many):
        with pytest.raises(ValueError, match=f"config must be one of .*; got {name}"):
            raw.initialize_grouped_gemm(*product.arrays, config=name)
        raw.initialize_grouped_gemm(*product.arrays)
        with pytest.raises(ValueError, match=product.configs()[0]):
            raw.grouped_gemm(stream, *product.arrays, config=name)
