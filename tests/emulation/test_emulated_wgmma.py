# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""csrc/kernels/wgmma_*.cuh on the emulated device: tiles, copies and barriers."""

import numpy as np
import pytest
from emulated import SEEDS, Product, kernels, seeds_for

from graphsafe_gg.testing import assert_bit_equal, assert_close

KERNELS = kernels("_wgmma_") + kernels("_bf16", "_wgmmat_")
BF16 = kernels("_bf16", "_wgmma")
CLUSTERS = kernels("_bf16", "_wgmma", "c2")
TRANSPOSED = kernels("_bf16_gkn", "_wgmmat_")
LAYOUTS = ("_gkn", "_gnk")
# By elements where an address is not a multiple of 16, else through tensor maps.
MISALIGNMENTS = pytest.mark.parametrize(
    "misalignment", [0, 2], ids=["maps", "elements"]
)

MIXED = [70, 0, 3, 130, 10]


@MISALIGNMENTS
@pytest.mark.parametrize("kernel", KERNELS)
def test_wgmma_of_uneven_groups(sim, kernel, misalignment):
    product = Product(kernel, MIXED, m=sum(MIXED) + 5)
    for seed in seeds_for(kernel):
        out = product.run(sim, seed=seed, misalignment=misalignment).out
        assert_close(out, product.truth(), what=f"seed {seed}")


@MISALIGNMENTS
@pytest.mark.parametrize("kernel", BF16)
def test_wgmma_of_more_steps_than_stages(sim, kernel, misalignment):
    product = Product(kernel, [65, 70], k=64 * 7 + 8)
    for seed in seeds_for(kernel):
        out = product.run(sim, seed=seed, misalignment=misalignment, num_sms=1).out
        assert_close(out, product.truth(), what=f"seed {seed}")


@pytest.mark.parametrize("dtype", ["_bf16", "_f16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_wgmma_has_the_same_bits_in_every_tile_shape(sim, dtype, layout):
    results = []
    for kernel in kernels(dtype + layout, "_wgmma"):
        product = Product(kernel, MIXED, k=200)
        results += [
            product.run(sim, seed=seed, misalignment=misalignment).out
            for seed in SEEDS[:3]
            for misalignment in (0, 2)
        ]
    for result in results[1:]:
        assert_bit_equal(result, results[0])


@pytest.mark.parametrize("rows", [1, 64, 65, 128, 129, 192, 193, 255, 256, 257])
@pytest.mark.parametrize("kernel", CLUSTERS)
def test_wgmma_of_tiles_that_a_cluster_shares_out(sim, kernel, rows):
    product = Product(kernel, [rows, 5], m=rows + 9)
    for seed in seeds_for(kernel):
        out = product.run(sim, seed=seed, num_sms=4).out
        assert_close(out, product.truth(), what=f"seed {seed}")


@pytest.mark.parametrize("rows", [31, 33, 97, 161, 225, 300, 520, 1030, 1800, 2070])
@pytest.mark.parametrize("kernel", TRANSPOSED)
def test_wgmma_transposed_of_every_number_of_steps(sim, kernel, rows):
    """Rows come in steps of 32, and tiles share them out evenly."""
    product = Product(kernel, [rows, 5], m=rows + 9, k=8, n=8)
    for seed in SEEDS[:2]:
        out = product.run(sim, seed=seed, num_sms=4).out
        assert_close(out, product.truth(), what=f"seed {seed}")


@MISALIGNMENTS
@pytest.mark.parametrize("kernel", BF16)
def test_wgmma_of_one_row_and_few_columns(sim, kernel, misalignment):
    product = Product(kernel, [0, 1, 0], k=8, n=8)
    for seed in seeds_for(kernel):
        out = product.run(sim, seed=seed, misalignment=misalignment).out
        assert_close(out, product.truth())


@pytest.mark.parametrize("out_dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("kernel", BF16)
def test_wgmma_of_every_result_type_with_bias(sim, kernel, out_dtype):
    product = Product(kernel, [20, 50], m=80, has_bias=True)
    for misalignment in (0, 4):
        out = product.run(
            sim, out_dtype=np.dtype(out_dtype), misalignment=misalignment
        ).out
        assert_close(out, product.truth())


@pytest.mark.parametrize("kernel", BF16)
def test_wgmma_with_every_grid(sim, kernel):
    product = Product(kernel, [200, 70], n=520)
    for num_sms in (1, 3, 8, 132):
        out = product.run(sim, num_sms=num_sms, seed=num_sms).out
        assert_close(out, product.truth(), what=f"{num_sms} SMs")
