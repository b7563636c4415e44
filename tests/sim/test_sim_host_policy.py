# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which launch known sizes take: a function of types, shape and sizes alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsafe_gg import _testing

CUBLASLT = "cublaslt"
MIXTRAL = {"k": 4096, "n": 28672}
DEEPSEEK_V3 = {"k": 7168, "n": 4096}
QWEN3 = {"k": 2048, "n": 1536}


def path(sizes, **options):
    return _testing.host_path(
        sizes, **({"m": sum(sizes), "k": 4096, "n": 4096} | options)
    )


@pytest.mark.parametrize("is_drhs", [False, True])
@pytest.mark.parametrize(
    ("sizes", "shape", "expected"),
    [
        ([2048] * 8, MIXTRAL, CUBLASLT),
        ([1024] * 32, DEEPSEEK_V3, CUBLASLT),
        ([2048] * 8 + [0] * 120, MIXTRAL, CUBLASLT),
        ([512] * 128, QWEN3, "kernels: many groups"),
        ([128] * 8, MIXTRAL, "kernels: few rows a group"),
        ([8] * 32, DEEPSEEK_V3, "kernels: few rows a group"),
        ([1024] * 8, QWEN3, "kernels: little work a group"),
        ([0] * 8, MIXTRAL, "kernels: nothing to multiply"),
        ([], MIXTRAL, "kernels: nothing to multiply"),
    ],
)
def test_host_policy_models(sizes, shape, expected, is_drhs):
    m = max(sum(sizes), 1 << 16)
    assert path(sizes, m=m, is_drhs=is_drhs, **shape) == expected


def test_host_policy_limits():
    assert path([1024] * 32) == CUBLASLT
    assert path([1024] * 33) == "kernels: many groups"
    assert path([1023, 1]) == CUBLASLT
    assert path([1023, 0]) == CUBLASLT
    assert path([1022, 1]) == "kernels: few rows a group"
    # 2 * 1000 * 2000 * 4000 = 16e9
    assert path([1000], k=2000, n=4000) == CUBLASLT
    assert path([999], k=2000, n=4000) == "kernels: little work a group"
    f32 = {"dtype": "float32", "out_dtype": "float32"}
    assert path([1000], k=500, n=1000, **f32) == CUBLASLT
    assert path([999], k=500, n=1000, **f32) == "kernels: little work a group"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("out_dtype", ["bfloat16", "float16", "float32"])
def test_host_policy_types(dtype, out_dtype):
    has_product = out_dtype in (dtype, "float32")
    expected = (
        CUBLASLT if has_product else "kernels: no cublaslt product of these types"
    )
    assert path([2048], dtype=dtype, out_dtype=out_dtype) == expected


def test_host_policy_alignment():
    unaligned = "kernels: rows are not multiples of 16 bytes"
    assert path([4096], k=4104) == path([4096], n=4104) == CUBLASLT
    for shape in ({"k": 4100}, {"n": 4100}, {"k": 4097}):
        assert path([4096], use="always", **shape) == unaligned
    f32 = {"dtype": "float32", "out_dtype": "float32"}
    assert path([4096], k=4100, n=4100, **f32) == CUBLASLT
    assert path([4096], k=4098, **f32) == unaligned


def test_host_policy_dimensions_past_32_bits():
    wide = "kernels: a dimension is past 32 bits"
    assert path([1024], k=2**31, n=8) == path([1024], k=8, n=2**31) == wide
    assert path([2**31]) == wide
    assert path([2**31 - 1, 2**31 - 1]) == CUBLASLT


@pytest.mark.parametrize("zero", [{"m": 0}, {"k": 0}, {"n": 0}])
@pytest.mark.parametrize("use", ["auto", "always"])
def test_host_policy_empty_products(zero, use):
    sizes = [0, 0] if "m" in zero else [1024, 0]
    assert path(sizes, use=use, **zero) == "kernels: nothing to multiply"


def test_host_policy_forced():
    assert path([2048], use="off") == "kernels: cublaslt is switched off"
    assert path([1] * 64, m=512, k=8, n=8, use="always") == CUBLASLT
    assert path([0], m=512, k=8, n=8, use="always") == "kernels: nothing to multiply"


SIZES = st.lists(st.integers(0, 3000), min_size=1, max_size=40)


@given(
    SIZES,
    st.integers(0, 500),
    st.integers(1, 600),
    st.integers(1, 600),
    st.sampled_from(["auto", "always", "off"]),
)
def test_host_policy_static_facts_foresee_cublaslt(sizes, tail, k, n, use):
    """What some sizes take has been prepared for, whatever the sizes."""
    options = {"m": sum(sizes) + tail, "k": 8 * k, "n": 8 * n, "use": use}
    if _testing.host_path(sizes, **options) == CUBLASLT:
        assert _testing.host_path(sizes, static_only=True, **options) == CUBLASLT


@given(SIZES, st.randoms())
def test_host_policy_order_of_groups_does_not_matter(sizes, random):
    shuffled = random.sample(sizes, len(sizes))
    assert path(shuffled) == path(sizes)


@given(st.integers(1, 2**40))
def test_host_policy_buckets_are_powers_of_two(rows):
    bucket = _testing.row_bucket(rows)
    assert rows <= 2**bucket
    assert bucket == 0 or rows > 2 ** (bucket - 1)
