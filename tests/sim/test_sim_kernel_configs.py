# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which kernel a problem gets on which GPU: a function of static facts."""

import itertools

import pytest

from graphsafe_gg import _testing

# Compute capability, multiprocessors, shared memory of a block and of a multiprocessor.
KIB = 1024
GPUS = {
    "sm_80": (80, 108, 163 * KIB, 164 * KIB),
    "sm_86": (86, 84, 99 * KIB, 100 * KIB),
    "sm_89": (89, 142, 99 * KIB, 100 * KIB),
    "sm_90": (90, 132, 227 * KIB, 228 * KIB),
    "sm_100": (100, 148, 227 * KIB, 228 * KIB),
    "sm_120": (120, 188, 99 * KIB, 100 * KIB),
}
DTYPES = ("bfloat16", "float16", "float32")
DECODE = (128, 512, 2048, 1536)
MIDDLE = (128, 8192, 2048, 1536)
PREFILL = (8, 16384, 4096, 28672)
GMKN = {
    "decode": DECODE,
    "middle": MIDDLE,
    "prefill": PREFILL,
    "odd": (3, 1000, 333, 77),
    "tiny": (1, 1, 1, 1),
    "no_k": (2, 100, 0, 64),
    "more_rows_than_32_bits": (4, 2**40, 512, 512),
    "huge_experts": (4, 4096, 2**20, 2**20),
}


def configs(gpu, gmkn, dtype="bfloat16", product="fwd", layout="gkn", **known):
    problem = _testing.raw_problem(
        is_drhs=product == "drhs",
        dtype=dtype,
        out_dtype=dtype,
        size_dtype="int32",
        transpose_rhs=layout == "gnk",
        has_bias=False,
        num_layers=1,
        num_sizes=gmkn[0],
        **dict(zip(("num_groups", "m", "k", "n"), gmkn, strict=True)),
    )
    return _testing.kernel_configs(problem, list(GPUS[gpu]), **known)


def is_transposed(entry):
    return "_wgmmat_" in entry["kernel"]


def takes_wgmma(entries):
    chosen = [entry for entry in entries if not is_transposed(entry)]
    return {entry["cluster_size"] > 0 for entry in chosen} == {True}


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", GMKN)
def test_kernel_configs_are_built_and_fit(gpu, shape):
    _, num_sms, block_bytes, sm_bytes = GPUS[gpu]
    products = itertools.product(DTYPES, ("fwd", "drhs"), ("gkn", "gnk"))
    for dtype, product, layout in products:
        found = configs(gpu, GMKN[shape], dtype, product, layout)
        assert found
        for entry in found:
            assert entry["kernel"] is not None
            assert entry["smem_bytes"] <= block_bytes
            per_sm = entry["blocks_per_sm"]
            assert per_sm >= 1
            assert per_sm * (entry["smem_bytes"] + KIB) <= sm_bytes
            assert 1 <= entry["grid_blocks"] <= num_sms * per_sm
            assert entry["grid_blocks"] % max(entry["cluster_size"], 1) == 0


def test_kernel_configs_are_of_emulated_kernels():
    """tests/emulation runs every kernel that a problem may get."""
    products = itertools.product(GPUS, GMKN, DTYPES, ("fwd", "drhs"), ("gkn", "gnk"))
    names = {
        entry["kernel"]
        for gpu, shape, *product in products
        for entry in configs(gpu, GMKN[shape], *product)
    }
    assert names == set(_testing.emulated_kernels())


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", ["middle", "prefill"])
@pytest.mark.parametrize("layout", ["gkn", "gnk"])
def test_kernel_configs_of_many_rows_are_wgmma_on_sm_90_alone(gpu, shape, layout):
    for dtype in ("bfloat16", "float16"):
        found = configs(gpu, GMKN[shape], dtype, layout=layout)
        assert takes_wgmma(found) == (gpu == "sm_90")


def test_kernel_configs_of_few_rows_are_not_wgmma():
    assert not takes_wgmma(configs("sm_90", DECODE))
    assert not takes_wgmma(configs("sm_90", DECODE, layout="gnk"))


@pytest.mark.parametrize(
    "gmkn",
    [
        (8, 16384, 4095, 28672),
        (8, 16384, 4096, 28671),
        (8, 16384, 0, 28672),
        (0, 16384, 4096, 28672),
        GMKN["more_rows_than_32_bits"],
        GMKN["huge_experts"],
    ],
    ids=str,
)
def test_kernel_configs_that_tensor_maps_cannot_describe(gmkn):
    assert not takes_wgmma(configs("sm_90", gmkn))


@pytest.mark.parametrize(
    ("dtype", "product"), [("float32", "fwd"), ("bfloat16", "drhs")]
)
def test_kernel_configs_that_wgmma_is_not_built_for(dtype, product):
    assert not takes_wgmma(configs("sm_90", PREFILL, dtype, product))


@pytest.mark.parametrize("shape", ["decode", "middle", "prefill"])
def test_kernel_configs_of_transposed_tiles_come_last(shape):
    """Nothing chooses them; a caller may name them, where tensor maps can be had."""
    found = [is_transposed(entry) for entry in configs("sm_90", GMKN[shape])]
    assert found == sorted(found)
    assert any(found)
    for gpu, gmkn in (("sm_80", GMKN[shape]), ("sm_90", GMKN["odd"])):
        assert not any(map(is_transposed, configs(gpu, gmkn)))
    for rows in (-1, 1, 64, 1000):
        first = configs("sm_90", GMKN[shape], max_group_rows=rows)[0]
        assert not is_transposed(first)


@pytest.mark.parametrize("gpu", GPUS)
def test_kernel_configs_of_few_rows_have_16_row_tiles(gpu):
    assert configs(gpu, DECODE)[0]["block_m"] == 16
    assert configs(gpu, MIDDLE)[0]["block_m"] >= 64


@pytest.mark.parametrize(
    ("rows", "tile"),
    [
        (40, (64, 256, 1)),
        (64, (128, 128, 1)),
        (128, (128, 256, 1)),
        (512, (128, 256, 2)),
    ],
)
def test_kernel_configs_of_wgmma_follow_the_mean_rows(rows, tile):
    first = configs("sm_90", (8, 8 * rows, 4096, 28672))[0]
    assert (first["block_m"], first["block_n"], first["cluster_size"]) == tile


def test_kernel_configs_of_few_tiles_keep_more_bytes_on_their_way():
    """One token: blocks are few, and each waits for memory by itself."""
    one, many = (configs("sm_90", (128, m, 2048, 1536))[0] for m in (8, 512))
    assert "k128" in one["kernel"]
    assert "k64" in many["kernel"]


def test_kernel_configs_of_few_groups_fill_the_gpu():
    assert configs("sm_90", (8, 256, 7168, 4096))[0]["block_m"] == 32
    assert configs("sm_90", (128, 4096, 2048, 1536))[0]["block_m"] == 64


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", ["decode", "middle", "prefill"])
def test_kernel_configs_of_known_sizes_are_candidates(gpu, shape):
    candidates = configs(gpu, GMKN[shape])
    for max_group_rows in (0, 1, 16, 17, 64, 65, 1000):
        chosen = configs(gpu, GMKN[shape], max_group_rows=max_group_rows)[0]
        assert chosen in candidates
