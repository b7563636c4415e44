# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Every kernel that can compute a product, whether or not it is chosen."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from support.cuda_graphs import Gpu, Stream
from support.operands import DTYPES
from support.raw_layer import RawLayer

from graphsafe_gg import raw
from graphsafe_gg.testing import assert_bit_equal

pytestmark = pytest.mark.gpu

# ((m, k, n), sizes): few rows and many a group, more than a tile has, k of many stages.
CALLS = [
    ((67, 72, 136), [30, 0, 1, 36]),
    ((300, 136, 264), [160, 0, 120]),
    ((2600, 1032, 520), [1, 33, 2300, 0, 257]),
]


@pytest.fixture
def gpu():
    opened = Gpu()
    yield opened
    opened.close()


def products_of_configs(gpu, layer, stream):
    """(name, result) of every kernel, the chosen one first."""
    arrays = (layer.lhs, layer.rhs, layer.sizes, layer.results.out)
    options = {"transpose_rhs": layer.transpose_rhs}
    for config in ("", *raw.grouped_gemm_configs(*arrays, **options)):
        raw.initialize_grouped_gemm(*arrays, **options, config=config)
        gpu.fill_nan(layer.results.out, stream)
        raw.grouped_gemm(stream, *arrays, **options, config=config)
        stream.synchronize()
        yield config, gpu.read(layer.results.out)


def check_configs(gpu, dtype, transpose_rhs, calls):
    stream = Stream()
    for (m, k, n), sizes in calls:
        shape = {"m": m, "k": k, "n": n, "g": len(sizes)}
        layer = RawLayer(gpu, dtype, **shape, transpose_rhs=transpose_rhs)
        layer.set_sizes(sizes, stream)
        layer.enqueue(stream)
        layer.check(stream)
        results = products_of_configs(gpu, layer, stream)
        _, chosen = next(results)
        for config, result in results:
            assert_bit_equal(result, chosen, what=f"{config}, {sizes}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_raw_configs_have_the_same_bits(gpu, dtype, transpose_rhs):
    check_configs(gpu, dtype, transpose_rhs, CALLS)


@pytest.mark.sanitizer
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_raw_configs_under_a_checker(gpu, transpose_rhs):
    """The middle call: small, and with the kernels for many rows."""
    check_configs(gpu, jnp.bfloat16, transpose_rhs, CALLS[1:2])


@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("offset", [0, 2], ids=["aligned", "misaligned"])
@pytest.mark.parametrize("transpose_rhs", [False, True], ids=["gkn", "gnk"])
def test_raw_configs_with_bias(gpu, transpose_rhs, offset, out_dtype):
    """Into every type; from addresses that no tensor map takes, by elements."""
    (m, k, n), sizes = CALLS[1]
    rng, stream = np.random.default_rng(0), Stream()
    inner = (n, k) if transpose_rhs else (k, n)

    def put(*shape, dtype=jnp.bfloat16):
        flat = rng.standard_normal(math.prod(shape) + 1, np.float32).astype(dtype)
        array = gpu.put(flat)
        step = offset // 2 * array.dtype.itemsize
        return raw.DeviceArray(array.address + step, shape, array.dtype)

    arrays = (put(m, k), put(3, *inner), gpu.put(np.asarray(sizes, np.int32)))
    arrays = (*arrays, put(m, n, dtype=out_dtype))
    options = {"transpose_rhs": transpose_rhs, "bias": put(3, n)}
    want = None
    for config in ("", *raw.grouped_gemm_configs(*arrays, **options)):
        raw.initialize_grouped_gemm(*arrays, **options, config=config)
        gpu.fill_nan(arrays[3], stream)
        raw.grouped_gemm(stream, *arrays, **options, config=config)
        stream.synchronize()
        result = gpu.read(arrays[3])
        want = result if want is None else want
        assert np.isfinite(want.astype(np.float32)).all()
        assert_bit_equal(result, want, what=config)


def test_raw_configs_have_the_same_bits_again(gpu):
    stream = Stream()
    (m, k, n), sizes = CALLS[2]
    layer = RawLayer(gpu, jnp.bfloat16, m=m, k=k, n=n, g=len(sizes))
    layer.set_sizes(sizes, stream)
    first = dict(products_of_configs(gpu, layer, stream))
    for _ in range(20):
        for config, result in products_of_configs(gpu, layer, stream):
            np.testing.assert_array_equal(
                result.view(np.uint16), first[config].view(np.uint16), config
            )
