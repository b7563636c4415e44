# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Every product on a raw stream, each operand in an allocation of its own, so that a
memory checker sees the first byte past it."""

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from support.cuda_graphs import Gpu, Stream
from support.operands import DTYPES
from support.raw_layer import RawLayer

import graphsafe_gg as gg
from graphsafe_gg import raw
from graphsafe_gg.testing import assert_bit_equal

pytestmark = [pytest.mark.gpu, pytest.mark.sanitizer]

# (m, k, n), with sizes: small and large groups, a tail, empties, rows of odd length.
CALLS = [
    ((13, 24, 40), [1, 0, 2, 3, 0, 1]),
    ((67, 7, 13), [30, 0, 1, 36]),
    ((200, 72, 136), [64, 0, 70]),
    ((420, 130, 70), [300, 17, 100, 3]),
    ((900, 136, 264), [500, 0, 380]),
    ((5, 16, 264), [0, 0, 0]),
]


@pytest.fixture
def gpu():
    opened = Gpu()
    yield opened
    opened.close()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_raw_products_of_every_type_and_layout(gpu, dtype, transpose_rhs):
    stream = Stream()
    for (m, k, n), sizes in CALLS:
        shape = {"m": m, "k": k, "n": n, "g": len(sizes)}
        layer = RawLayer(gpu, dtype, **shape, transpose_rhs=transpose_rhs)
        layer.set_sizes(sizes, stream)
        layer.enqueue(stream)
        layer.check(stream, f"{m}, {k}, {n}: ")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_on_device", [False, True])
def test_raw_products_with_bias_offset_and_layer(gpu, dtype, is_on_device):
    """The bits of the operation, for two of five groups in one of three layers."""
    rng, stream = np.random.default_rng(0), Stream()
    sizes = np.array([30, 7, 0, 65, 9], np.int32)
    shapes = ((130, 72), (3, 2, 72, 136), (3, 2, 136))
    lhs, rhs, bias = (rng.standard_normal(s, np.float32).astype(dtype) for s in shapes)
    out = gpu.put(np.zeros((130, 136), dtype))
    gpu.fill_nan(out, stream)
    indices = {"group_offset": 3, "layer": 1}
    want = gg.grouped_gemm(lhs, rhs, sizes, bias=bias, **indices, mode="device")
    if is_on_device:
        indices = {
            "group_offset": gpu.put(np.array([3], np.uint8)),
            "layer": gpu.put(np.array(1, np.int64)),
        }
    options = {"bias": gpu.put(bias), **indices}
    arrays = (*map(gpu.put, (lhs, rhs, sizes)), out)
    raw.initialize_grouped_gemm(*arrays, **options)
    raw.grouped_gemm(stream, *arrays, **options)
    stream.synchronize()
    assert_bit_equal(gpu.read(out), want)
    gg.check()


def test_raw_products_cut_bad_sizes_to_the_rows(gpu):
    """Nothing outside the operands is touched, and the copy brings what is there."""
    stream = Stream()
    layer = RawLayer(gpu, jnp.bfloat16, m=40, g=4)
    layer.set_sizes([9, 0, 31, 0], stream)
    layer.gpu.write(layer.sizes, np.array([9, -5, 1 << 20, 7], np.int32))
    layer.enqueue(stream)
    np.testing.assert_array_equal(layer.slot.wait(), [9, -5, 1 << 20, 7])
    with pytest.raises(gg.GroupSizesError, match=r"must be >= 0; got -5"):
        gg.check()
    layer.gpu.write(layer.sizes, layer.host.group_sizes)
    layer.copy(stream)
    layer.check(stream)
