# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Bad group sizes, and how each mode reports them."""

import re
from typing import NamedTuple

import jax
import numpy as np
import pytest
from support.platforms import is_cuda

import graphsafe_gg as gg


class BadSizes(NamedTuple):
    """Sizes for m rows, what the message says, and what a device makes of them."""

    sizes: list
    rule: str  # the message up to the call site
    cut: list  # a negative size counts as 0, a group ends with the rows


M = 32

# What a handler returns, JAX raises as JaxRuntimeError, or as ValueError where the call
# itself fails in jit's compiled fast path. The text is the same.
HOST_ERRORS = (jax.errors.JaxRuntimeError, ValueError)

BAD_SIZES = {
    "negative": BadSizes(
        [16, -16, 32, 0],
        "group_sizes[1] must be >= 0; got -16",
        [16, 0, 16, 0],
    ),
    "negative_first": BadSizes(
        [-1, 8, 8, 8], "group_sizes[0] must be >= 0; got -1", [0, 8, 8, 8]
    ),
    "sum_above_m": BadSizes(
        [20, 20, 0, 0],
        "sum(group_sizes[:2]) must be at most m = 32; got 40",
        [20, 12, 0, 0],
    ),
    "one_above_m": BadSizes(
        [0, 0, 0, 33],
        "sum(group_sizes[:4]) must be at most m = 32; got 33",
        [0, 0, 0, 32],
    ),
    "largest": BadSizes(
        [2**31 - 1, 2**31 - 1, 2**31 - 1, 1],
        "sum(group_sizes[:1]) must be at most m = 32; got 2147483647",
        [32, 0, 0, 0],
    ),
    "smallest": BadSizes(
        [4, 4, 4, -(2**31)],
        "group_sizes[3] must be >= 0; got -2147483648",
        [4, 4, 4, 0],
    ),
    "first_of_two": BadSizes(
        [4, -2, 40, 0], "group_sizes[1] must be >= 0; got -2", [4, 0, 28, 0]
    ),
}

each_bad_size = pytest.mark.parametrize("bad", BAD_SIZES.values(), ids=BAD_SIZES.keys())


def raises_on_the_host(device: jax.Device, mode: str) -> bool:
    """Whether the call itself fails: the host sees the sizes."""
    return mode in ("sync", "async") or not is_cuda(device)


def expected_message(bad: BadSizes, site: str) -> str:
    return re.escape(f"grouped_gemm: {bad.rule} (call site {site}). ")


def assert_reported(device: jax.Device, mode: str, bad: BadSizes, site: str, call):
    """Runs the call and asserts how it fails. Returns its result if it has one."""
    if raises_on_the_host(device, mode):
        pattern = "^INVALID_ARGUMENT: " + expected_message(bad, site)
        with pytest.raises(HOST_ERRORS, match=pattern):
            jax.block_until_ready(call())
        return None
    result = jax.tree.map(np.asarray, call())
    pattern = f"^device {device.id}: " + expected_message(bad, site)
    with pytest.raises(gg.GroupSizesError, match=pattern):
        gg.check()
    gg.check()  # raised once
    return result
