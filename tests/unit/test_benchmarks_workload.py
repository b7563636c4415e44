# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Operands of a case, copies of the weights, and which rows of a result are checked."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import shapes
import workload
from host_device import HostDevice

CASE = shapes.Case("x", "decode", g=5, m=40, k=16, n=24, origin="test")


@pytest.fixture
def device():
    return HostDevice()


def truth(device, load):
    """The product from its definition, in float64."""
    dims, ends = load.dims, np.cumsum(load.sizes)
    a = device.view(load.a, dims.a_shape, load.dtype).astype(np.float64)
    b = device.view(load.copies[-1], dims.b_shape, load.dtype).astype(np.float64)
    out = np.zeros(dims.out_shape)
    for group, (start, end) in enumerate(zip(ends - load.sizes, ends, strict=True)):
        if dims.is_drhs:
            out[group] = a[start:end].T @ b[start:end]
        else:
            out[start:end] = a[start:end] @ (
                b[group].T if dims.transpose_rhs else b[group]
            )
    return out


def make(device, product="fwd", layout="gkn", rotated_bytes=0, case=CASE):
    sizes = shapes.group_sizes(case, "half_empty")
    size = workload.pool_bytes(case, sizes, "float32", rotated_bytes)
    pool = workload.Pool(device, size, "float32")
    load = workload.make_workload(
        device,
        pool,
        case,
        pattern="half_empty",
        product=product,
        layout=layout,
        dtype="float32",
        rotated_bytes=rotated_bytes,
    )
    return pool, load


@pytest.mark.parametrize("layout", shapes.LAYOUTS)
@pytest.mark.parametrize("product", shapes.PRODUCTS)
def test_check_accepts_the_truth_and_sees_one_wrong_element(device, product, layout):
    _, load = make(device, product, layout)
    out = device.view(load.out, load.dims.out_shape, "float32")
    out[...] = truth(device, load)
    check = workload.row_check(load.dims, load.sizes)
    right = device.rel_err(load.a, load.copies[-1], load.out, "float32", check)
    assert right < 1e-6
    out[..., -1, -1] += 100.0
    wrong = device.rel_err(load.a, load.copies[-1], load.out, "float32", check)
    assert wrong > 0.1
    out[0] = np.nan
    count = out.size
    assert device.count_nonfinite(load.out, count, "float32") == out[0].size


def test_dlhs_swaps_the_layout():
    gkn = workload.Dims.of(CASE, "dlhs", "gkn")
    assert (gkn.k, gkn.n, gkn.transpose_rhs) == (24, 16, True)
    assert gkn.b_shape == (5, 16, 24)
    gnk = workload.Dims.of(CASE, "dlhs", "gnk")
    assert (gnk.transpose_rhs, gnk.b_shape) == (False, (5, 24, 16))
    assert workload.Dims.of(CASE, "drhs", "gnk").out_shape == (5, 24, 16)


def test_rows_past_the_sum_should_be_zero(device):
    sizes = np.array([3, 0, 2])
    dims = workload.Dims(False, 3, 8, 4, 6, False)
    rows = workload.row_check(dims, sizes).rows
    assert rows["count"].tolist() == [4] * 5 + [0] * 3
    assert rows["b"].tolist() == [0, 0, 0, 48, 48, 0, 0, 0]


def test_large_results_are_sampled_with_the_edges_of_groups():
    sizes = np.full(16, 1000)
    dims = workload.Dims(False, 16, 16000, 4, 8, False)
    rows = workload.row_check(dims, sizes).rows["out"] // 8
    assert len(rows) <= 1024 + 32
    assert {0, 999, 1000, 15000, 15999} <= set(rows.tolist())


@pytest.mark.parametrize(
    "case",
    [c for c in shapes.cases_of("decode", "all") if c.name.endswith(("1t", "64t"))],
    ids=lambda case: case.name,
)
def test_copies_of_the_weights_share_no_matrix_that_is_read(case):
    sizes = shapes.group_sizes(case, shapes.default_pattern(case))
    active_bytes = shapes.weight_bytes(case, sizes, "bfloat16")
    num_copies, shift = workload.rotation(sizes, active_bytes, 1 << 30)
    assert num_copies >= 2
    assert num_copies * active_bytes >= 1 << 30
    active = np.flatnonzero(sizes)
    read = np.concatenate([active + i * shift for i in range(num_copies)])
    assert len(np.unique(read)) == len(read)


@pytest.mark.parametrize("rotated_bytes", [0, 1 << 16])
def test_everything_lies_inside_the_pool(device, rotated_bytes):
    pool, load = make(device, rotated_bytes=rotated_bytes)
    end = pool.address + pool.size_bytes
    weights = CASE.g * CASE.k * CASE.n * 4
    assert len(load.copies) == (1 if not rotated_bytes else len(set(load.copies)))
    assert all(pool.address <= at <= end - weights for at in load.copies)
    places = workload.read_places(pool, load)
    assert all(at + load.moved_bytes <= end for at in places)
    assert len(places) == len(load.copies)


def test_release_gives_everything_back(device):
    pool, load = make(device, "drhs")
    load.release(device)
    assert list(device._blocks) == [pool.address]
