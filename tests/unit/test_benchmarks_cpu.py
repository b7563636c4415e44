# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU benchmark, run dry."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench_cpu
import results
import shapes
import workload
from host_device import HostDevice


def test_every_product_gives_a_valid_row(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_cpu, "CASES", bench_cpu.CASES[:1])
    assert bench_cpu.main(["--dry-run", f"--out={tmp_path}", "--warm-up=0"]) == 0
    (file,) = tmp_path.iterdir()
    doc = json.loads(file.read_text())
    assert results.validate(doc) == []
    assert doc["gpu"] is None
    assert doc["machine"]["name"].endswith("cores")
    assert len(doc["rows"]) == 12
    assert all(row["rel_err"] < 4e-3 for row in doc["rows"])
    assert all(set(row["baselines_ms"]) == {"numpy loop"} for row in doc["rows"])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", shapes.LAYOUTS)
@pytest.mark.parametrize("product", shapes.PRODUCTS)
def test_the_loop_computes_the_product(product, layout, dtype):
    device = HostDevice()
    case = shapes.Case("x", "cpu", g=4, m=24, k=16, n=12, origin="test")
    pool = workload.Pool(device, 1 << 14, dtype)
    load = workload.make_workload(
        device,
        pool,
        case,
        pattern="half_empty",
        product=product,
        layout=layout,
        dtype=dtype,
    )
    loop = bench_cpu.NumpyLoop(device, load)
    loop.run()
    device.view(load.out, load.dims.out_shape, dtype)[...] = loop._out
    check = workload.row_check(load.dims, load.sizes)
    err = device.rel_err(load.a, load.copies[0], load.out, dtype, check)
    assert err < (1e-6 if dtype == "float32" else 3e-3)
    assert np.isfinite(loop._out.astype(np.float32)).all()
