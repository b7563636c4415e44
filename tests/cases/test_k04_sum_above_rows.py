# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K04: group sizes whose sum passes the number of rows.

That a kernel stays inside its operands is shown by tests/gpu/test_device_memory.py.
"""

import jax
import numpy as np
import pytest
from support.bad_sizes import (
    HOST_ERRORS,
    BadSizes,
    assert_reported,
    raises_on_the_host,
)
from support.operands import MODES, random_operands
from support.products import (
    assert_products_close,
    check_products,
    run_products,
    truth_of,
)

import graphsafe_gg as gg
from graphsafe_gg.testing import assert_close

BAD = BadSizes(
    [40, 40, 0, 0],
    "sum(group_sizes[:2]) must be at most m = 64; got 80",
    [40, 24, 0, 0],
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["eager", "jit"])
def test_p010_sum_above_m(device, mode, how):
    """P-010: the host raises before a launch; a device cuts. The next call works."""
    operands = random_operands(np.array(BAD.sizes, np.int32), 64, 32, 48)
    site = f"p010.{how}.{mode}"

    def eager():
        return gg.grouped_gemm(*operands[:3], mode=mode, name=site)

    def jitted():
        return run_products(*operands, mode=mode, name=site)

    result = assert_reported(
        device, mode, BAD, site, eager if how == "eager" else jitted
    )
    if result is not None:
        truth = truth_of(operands._replace(group_sizes=np.array(BAD.cut, np.int32)))
        if how == "eager":
            assert_close(result, truth.out)
        else:
            assert_products_close(result, truth)
    check_products(random_operands([16, 16, 16, 16], 64, 32, 48), mode=mode)


@pytest.mark.parametrize(("m", "num_groups"), [(8, 64), (0, 64), (64, 4)])
def test_p011_random_sizes_never_fault(device, m, num_groups):
    """P-011: 200 draws of arbitrary words in device mode; then a right result.

    The scheduler makes up no sizes of its own: it times nothing.
    """
    rng = np.random.default_rng(0)
    operands = random_operands([m // num_groups] * num_groups, m, 16, 24)
    for _ in range(200):
        words = rng.integers(-(2**31), 2**31, num_groups).astype(np.int32)
        words[rng.random(num_groups) < 0.7] %= 5
        try:
            jax.block_until_ready(
                run_products(*operands._replace(group_sizes=words), mode="device")
            )
        except HOST_ERRORS:
            assert raises_on_the_host(device, "device")
    try:
        gg.check()
    except gg.GroupSizesError:
        assert not raises_on_the_host(device, "device")
    check_products(operands, mode="device")
