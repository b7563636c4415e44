# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`group_sizes`: every integer type, and what happens when the values are bad."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.bad_sizes import (
    BAD_SIZES,
    HOST_ERRORS,
    BadSizes,
    M,
    assert_reported,
    each_bad_size,
    raises_on_the_host,
)
from support.operands import MODES, random_operands
from support.products import (
    assert_products_bit_equal,
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg

SIZES = [5, 0, 17, 9]
NARROW = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32]
WIDE = [np.int64, np.uint64]
modes = pytest.mark.parametrize("mode", MODES)


@pytest.mark.parametrize("size_dtype", NARROW + WIDE)
@modes
def test_grouped_gemm_sizes_of_every_integer_type(device, mode, size_dtype):
    """Read by their own width: the same bits as with int32."""
    operands = random_operands(SIZES, 40, 12, 20)
    expected = check_products(operands, mode=mode)
    sizes = np.array(SIZES, size_dtype)
    with jax.enable_x64(size_dtype in WIDE):
        assert jnp.asarray(sizes).dtype == size_dtype
        products = run_products(*operands._replace(group_sizes=sizes), mode=mode)
    assert_products_bit_equal(products, expected)


@pytest.mark.parametrize(
    ("size_dtype", "largest"), [(np.int8, 127), (np.uint8, 255), (np.int16, 300)]
)
@modes
def test_grouped_gemm_sizes_up_to_the_type_s_limit(device, mode, size_dtype, largest):
    """The sum passes what the type of the sizes can hold."""
    sizes = np.array([largest, 3, largest], size_dtype)
    check_products(random_operands(sizes, 2 * largest + 3, 8, 16), mode=mode)


@each_bad_size
@modes
def test_grouped_gemm_sizes_bad_values(device, mode, bad):
    """The host raises; a device cuts the sizes, computes the rest and records."""
    operands = random_operands(np.array(bad.sizes, np.int32), M, 12, 20)
    site = f"test.{mode}"
    result = assert_reported(
        device,
        mode,
        bad,
        site,
        lambda: run_products(*operands, mode=mode, name=site),
    )
    if result is not None:
        cut = operands._replace(group_sizes=np.array(bad.cut, np.int32))
        assert_products_close(result, truth_of(cut))


@pytest.mark.parametrize(
    ("size_dtype", "sizes", "rule"),
    [
        (np.uint32, [4, 2**32 - 1], "sum(group_sizes[:2]) {} 32; got 4294967299"),
        (np.uint8, [200, 1], "sum(group_sizes[:1]) {} 32; got 200"),
        (np.int8, [4, -128], "group_sizes[1] must be >= 0; got -128"),
        (np.int16, [-1, 4], "group_sizes[0] must be >= 0; got -1"),
        (np.int64, [4, -(2**63)], f"group_sizes[1] must be >= 0; got {-(2**63)}"),
        (np.int64, [4, 2**32], "sum(group_sizes[:2]) {} 32; got 4294967300"),
        (
            np.int64,
            [4, 2**63 - 1],
            f"sum(group_sizes[:2]) {{}} 32; got {2**63 - 1}",
        ),
        (np.uint64, [4, 2**64 - 1], f"sum(group_sizes[:2]) {{}} 32; got {2**63 - 1}"),
        (np.uint64, [2**63, 4], f"sum(group_sizes[:1]) {{}} 32; got {2**63 - 1}"),
    ],
)
@modes
def test_grouped_gemm_sizes_bad_values_by_width(device, mode, size_dtype, sizes, rule):
    """A value is bad by its own type: uint32 4294967295 is no length, and not -1."""
    sizes = np.array(sizes, size_dtype)
    operands = random_operands([4, 4], M, 12, 20)
    bad = BadSizes(sizes, rule.format("must be at most m ="), [])
    with jax.enable_x64(sizes.dtype.itemsize == 8):
        assert_reported(
            device,
            mode,
            bad,
            "test.width",
            lambda: gg.grouped_gemm(*operands[:2], sizes, mode=mode, name="test.width"),
        )


@modes
def test_grouped_gemm_sizes_bad_values_in_the_gradient(device, mode):
    """The weight gradient checks the sizes of its own call."""
    bad = BAD_SIZES["negative"]
    operands = random_operands(np.array(bad.sizes, np.int32), M, 12, 20)

    def drhs(rhs):
        lhs, _, sizes, dout = operands
        out = gg.grouped_gemm(lhs, rhs, sizes, mode=mode, name="test.drhs")
        return jnp.sum(out * dout)

    assert_reported(
        device, mode, bad, "test.drhs", lambda: jax.jit(jax.grad(drhs))(operands.rhs)
    )


@modes
def test_grouped_gemm_sizes_good_call_after_a_bad_one(device, mode):
    """A failed call leaves nothing behind: the same program then runs right."""
    good = random_operands([4, 4, 4, 4], M, 12, 20)
    bad = good._replace(group_sizes=np.array([4, -4, 4, 4], np.int32))
    for _ in range(3):
        if raises_on_the_host(device, mode):
            with pytest.raises(HOST_ERRORS):
                jax.block_until_ready(run_products(*bad, mode=mode))
        else:
            jax.block_until_ready(run_products(*bad, mode=mode))
            with pytest.raises(gg.GroupSizesError):
                gg.check()
        check_products(good, mode=mode)


@modes
def test_grouped_gemm_sizes_are_not_checked_where_nothing_is_computed(device, mode):
    """XLA drops a call whose result is empty, so bad sizes go unseen there."""
    lhs = np.zeros((0, 8), np.float32)
    rhs = np.zeros((2, 8, 4), np.float32)
    out = jax.jit(lambda *a: gg.grouped_gemm(*a, mode=mode))(
        lhs, rhs, np.array([3, -1], np.int32)
    )
    assert out.shape == (0, 4)


@pytest.mark.parametrize("mode", MODES[1:])
def test_grouped_gemm_sizes_random_words_never_fault(device, mode):
    """Any bits at all: either an error, or a result without other groups' rows."""
    rng = np.random.default_rng(0)
    for draw in range(40):
        words = rng.integers(-(2**31), 2**31, 8).astype(np.int32)
        words[rng.random(8) < 0.5] %= 16
        operands = random_operands(words, M, 12, 20)
        try:
            jax.block_until_ready(run_products(*operands, mode=mode))
        except HOST_ERRORS:
            assert raises_on_the_host(device, mode), f"draw {draw}: {words}"
        else:
            with pytest.raises(gg.GroupSizesError):
                gg.check()
    check_products(random_operands([4] * 8, M, 12, 20), mode=mode)
