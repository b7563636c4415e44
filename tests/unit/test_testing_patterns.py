# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Size patterns and dirty memory of `graphsafe_gg.testing`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.child_process import output_of

from graphsafe_gg.testing import dirty_memory, empty_group_masks, size_patterns


@pytest.mark.parametrize("m", [0, 1, 7, 97, 4096])
@pytest.mark.parametrize("num_groups", [1, 2, 3, 8, 129])
def test_testing_patterns_are_legal(num_groups, m):
    patterns = size_patterns(num_groups, m)
    for name, sizes in patterns.items():
        assert sizes.dtype == np.int32
        assert sizes.shape == (num_groups,)
        assert (sizes >= 0).all(), name
        total = {"all_empty": 0, "short": 2 * m // 3}.get(name, m)
        assert sizes.sum() == total, name
    for name in ("one_first", "one_middle", "one_last"):
        assert np.count_nonzero(patterns[name]) == (m > 0)
    assert np.ptp(patterns["uniform"]) <= 1
    assert not patterns["half_empty"][1::2].any()


def test_testing_patterns_are_repeatable():
    for name, sizes in size_patterns(16, 1000).items():
        np.testing.assert_array_equal(sizes, size_patterns(16, 1000)[name])
    assert (size_patterns(16, 1000, 1)["dirichlet"] != sizes).any()


@pytest.mark.parametrize("num_groups", range(7))
def test_testing_every_empty_group_mask(num_groups):
    masks = set()
    for sizes in empty_group_masks(num_groups, 45):
        assert sizes.sum() == (45 if sizes.any() else 0)
        masks.add(tuple(sizes == 0))
    assert len(masks) == 2**num_groups


def test_testing_dirty_memory_fills_with_nan_of_every_type(device):
    """The words that it leaves behind are NaN in all three types."""
    word = np.array([0xFFFFFFFF], np.uint32)
    for dtype in (np.float32, np.float16, jnp.bfloat16):
        assert np.isnan(word.view(dtype).astype(np.float32)).all()
    dirty_memory(device)
    dirty_memory(device, fill=0.0)
    dirty_memory()


def test_testing_dirty_memory_frees_what_it_takes(device):
    jax.block_until_ready(jnp.zeros(1))
    before = len(jax.live_arrays(device.platform))
    dirty_memory(device)
    assert len(jax.live_arrays(device.platform)) <= before


def test_testing_is_not_imported_by_the_package():
    code = "import sys, graphsafe_gg; print('graphsafe_gg.testing' in sys.modules)"
    assert output_of(code, env={"JAX_PLATFORMS": "cpu"}).strip() == "False"
