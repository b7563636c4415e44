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
