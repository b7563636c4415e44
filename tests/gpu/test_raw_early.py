# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that start before the one in front has ended still see what it wrote."""

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from support.cuda_graphs import Executable, Gpu, Stream, capture_of
from support.operands import DTYPES

from graphsafe_gg import raw
from graphsafe_gg.testing import assert_bit_equal

pytestmark = pytest.mark.gpu

G, WIDTH, NUM_PRODUCTS = 8, 512, 6
ROWS = {"few rows": 40, "many rows": 1200}


@pytest.fixture
def gpu():
    opened = Gpu()
    yield opened
    opened.close()


class Chain:
    """Products whose lhs is the result of the one before; NaN until it is written."""

    def __init__(self, gpu, m, dtype, transpose_rhs):
        rng = np.random.default_rng(0)
        self.gpu, self.transpose_rhs, self.m = gpu, transpose_rhs, m
        weights = rng.standard_normal((G, WIDTH, WIDTH), np.float32) / WIDTH**0.5
        self.weights = gpu.put(weights.astype(dtype))
        first = rng.standard_normal((m, WIDTH), np.float32).astype(dtype)
        self.rows = [gpu.put(first)]
        self.rows += [gpu.put(np.zeros_like(first)) for _ in range(NUM_PRODUCTS)]
        self.sizes = gpu.put(np.zeros(G, np.int32))
        raw.initialize_grouped_gemm(*self.operands(0), transpose_rhs=transpose_rhs)

    def operands(self, i):
        return self.rows[i], self.weights, self.sizes, self.rows[i + 1]

    def enqueue(self, stream, starts_early=True):
        for rows in self.rows[1:]:
            self.gpu.fill_nan(rows, stream)
        for i in range(NUM_PRODUCTS):
            raw.grouped_gemm(
                stream,
                *self.operands(i),
                transpose_rhs=self.transpose_rhs,
                starts_early=starts_early,
            )

    def set_sizes(self, rng):
        sizes = rng.multinomial(self.m, rng.dirichlet(np.ones(G)))
        self.gpu.write(self.sizes, sizes)

    def result(self, stream):
        stream.synchronize()
        return self.gpu.read(self.rows[-1])


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_raw_early_products_of_a_chain(gpu, rows, dtype, transpose_rhs):
    """Eager and replayed, with other sizes each time: the bits of plain launches."""
    chain, stream = Chain(gpu, ROWS[rows], dtype, transpose_rhs), Stream()
    executable = Executable(capture_of(stream, chain.enqueue))
    rng = np.random.default_rng(1)
    for _ in range(20):
        chain.set_sizes(rng)
        chain.enqueue(stream, starts_early=False)
        want = chain.result(stream)
        assert np.isfinite(want.astype(np.float32)).all()
        chain.enqueue(stream)
        assert_bit_equal(chain.result(stream), want, what="eager")
        executable.launch(stream)
        assert_bit_equal(chain.result(stream), want, what="replayed")
    executable.destroy()


def test_raw_early_product_waits_for_what_is_no_kernel(gpu):
    """The fill of the first lhs, in front of the first product."""
    chain, stream = Chain(gpu, ROWS["few rows"], jnp.bfloat16, False), Stream()
    rng = np.random.default_rng(2)
    for _ in range(50):
        chain.set_sizes(rng)
        chain.enqueue(stream)
        early = chain.result(stream)
        chain.enqueue(stream, starts_early=False)
        assert_bit_equal(early, chain.result(stream))
