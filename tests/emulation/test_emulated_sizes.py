# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Group sizes, offsets and layers as the device code reads them: csrc/kernels/
group_scan.cuh and tile_scheduler.cuh on the emulated device."""

import numpy as np
import pytest
from emulated import SEEDS, Product

from graphsafe_gg.testing import assert_bit_equal, assert_close

KERNELS = [
    "gg_fwd_bf16_gkn_wgmma_m64n256k64s5c1",
    "gg_fwd_bf16_gnk_wgmma_m128n256k64s4c2",
    "gg_fwd_bf16_gkn_wgmmat_m256n128k64s4c2",
    "gg_fwd_bf16_gkn_m16n128k64s4",
    "gg_fwd_f32_gnk_m64n128k32s3",
]
DRHS = ["gg_drhs_bf16_m128n128k64s3", "gg_drhs_f32_m64n128k32s3"]
NEGATIVE_SIZE, SUM_ABOVE_M, BAD_GROUP_OFFSET, BAD_LAYER = 1, 2, 3, 4
NO_ERROR = (0, 0, 0, 0)

on_every_kernel = pytest.mark.parametrize("kernel", KERNELS + DRHS)
on_every_forward_kernel = pytest.mark.parametrize("kernel", KERNELS)


@on_every_kernel
def test_sizes_of_more_groups_than_a_window(sim, kernel):
    sizes = np.random.default_rng(1).integers(0, 3, 300)
    sizes[200:260] = 0
    product = Product(kernel, sizes, m=int(sizes.sum()) + 3, k=16, n=24)
    result = product.run(sim)
    assert_close(result.out, product.truth())
    assert result.error == NO_ERROR


@on_every_forward_kernel
@pytest.mark.parametrize(("k", "n"), [(8, 8), (16, 136), (520, 264)])
def test_start_ahead_of_the_stream_reads_weights_alone(sim, kernel, k, n):
    """Inside the operand, whatever the blocks; the result is the same."""
    product = Product(kernel, [3, 0, 5], m=9, k=k, n=n, num_layers=2, layer=1)
    for num_sms in (1, 16):
        early = product.run(sim, num_sms=num_sms, starts_early=True).out
        assert_bit_equal(early, product.run(sim, num_sms=num_sms).out)


@on_every_kernel
def test_sizes_that_are_all_empty_give_zeros(sim, kernel):
    result = Product(kernel, [0, 0, 0], m=70).run(sim)
    assert_bit_equal(result.out, np.zeros_like(result.out))


@on_every_kernel
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_sizes_of_every_type(sim, kernel, dtype):
    product = Product(kernel, [7, 0, 90], m=100)
    out = product.run(sim, sizes=product.sizes.astype(dtype)).out
    assert_close(out, product.truth())


@on_every_kernel
@pytest.mark.parametrize(
    ("sizes", "kept", "error"),
    [
        ([3, -2, 4], [3, 0, 4], (NEGATIVE_SIZE, 1, -2, 9)),
        ([3, 5, 4], [3, 5, 1], (SUM_ABOVE_M, 2, 12, 9)),
        ([2**31 - 1, 2**31 - 1, 1], [9, 0, 0], (SUM_ABOVE_M, 0, 2**31 - 1, 9)),
        ([1, -(2**31), 2**31 - 1], [1, 0, 8], (NEGATIVE_SIZE, 1, -(2**31), 9)),
        ([9, 0, 1], [9, 0, 0], (SUM_ABOVE_M, 2, 10, 9)),
    ],
)
def test_sizes_that_are_bad_are_cut_and_recorded(sim, kernel, sizes, kept, error):
    product = Product(kernel, kept, m=9)
    for seed in SEEDS[:3]:
        result = product.run(sim, sizes=np.asarray(sizes, np.int32), seed=seed)
        assert_close(result.out, product.truth(kept))
        assert result.error == error


@on_every_kernel
def test_sizes_that_are_bad_past_the_first_window(sim, kernel):
    sizes = np.ones(150, np.int32)
    product = Product(kernel, sizes, k=16, n=24)
    bad = sizes.copy()
    bad[140] = -7
    kept = np.maximum(bad, 0)
    result = product.run(sim, sizes=bad)
    assert_close(result.out, product.truth(kept))
    assert result.error == (NEGATIVE_SIZE, 140, -7, 150)


@on_every_kernel
@pytest.mark.parametrize("group_offset", [0, 1, 3])
def test_sizes_of_other_groups_count_rows_alone(sim, kernel, group_offset):
    sizes = [10, 70, 0, 5, 20]
    product = Product(
        kernel, sizes, m=120, num_groups=2, group_offset=group_offset, has_bias=True
    )
    result = product.run(sim)
    assert_close(result.out, product.truth())
    assert result.error == NO_ERROR


@on_every_kernel
@pytest.mark.parametrize("group_offset", [100, 150])
def test_sizes_of_local_groups_past_the_first_window(sim, kernel, group_offset):
    sizes = np.random.default_rng(2).integers(0, 3, 200)
    product = Product(
        kernel, sizes, k=16, n=24, num_groups=40, group_offset=group_offset
    )
    assert_close(product.run(sim).out, product.truth())


@on_every_kernel
@pytest.mark.parametrize("group_offset", [-3, 4, 5, -(2**31), 2**31 - 1])
def test_group_offset_that_is_bad_is_recorded(sim, kernel, group_offset):
    product = Product(
        kernel, [10, 7, 0, 5, 20], num_groups=2, group_offset=group_offset
    )
    result = product.run(sim)
    assert result.error == (BAD_GROUP_OFFSET, 0, group_offset, 3)
    # Of two groups from 4 on, one exists: its rows, or its matrix, are not zeros.
    rest = result.out[1 if product.is_drhs else slice(22)]
    assert not (rest if group_offset == 4 else result.out).any()


@on_every_forward_kernel
@pytest.mark.parametrize("layer", [0, 2])
def test_layer_picks_the_weights(sim, kernel, layer):
    product = Product(kernel, [10, 70], num_layers=3, layer=layer, has_bias=True)
    result = product.run(sim)
    assert_close(result.out, product.truth())
    assert result.error == NO_ERROR


@on_every_forward_kernel
@pytest.mark.parametrize("layer", [-1, 3])
def test_layer_that_is_bad_is_recorded_and_gives_zeros(sim, kernel, layer):
    result = Product(kernel, [10, 70], num_layers=3, layer=layer).run(sim)
    assert result.error == (BAD_LAYER, 0, layer, 2)
    assert not result.out.any()


@on_every_kernel
def test_guard_that_holds_writes_nothing(sim, kernel):
    result = Product(kernel, [10, 70]).run(sim, guard_stamp=1)
    assert np.isnan(result.out).all()
    assert result.guard_trips == 0


@on_every_kernel
def test_guard_that_finds_other_sizes_computes(sim, kernel):
    product = Product(kernel, [10, 70])
    result = product.run(sim, guard_stamp=2)
    assert_close(result.out, product.truth())
    assert result.guard_trips == 1
