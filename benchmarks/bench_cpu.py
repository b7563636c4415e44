# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Suite cpu: ours on JAX's CPU back end against a NumPy loop over the groups.

Fails if a float32 product takes more than twice the loop's time.
"""

import argparse
import importlib.metadata
import math
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# One thread each, unless the caller says otherwise: on a busy machine several BLAS
# threads spin, so a comparison with the loop would favour ours, which run on XLA's.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("NPROC", "1")

import jit_step
import numpy as np
import results
import shapes
import timing
import workload as workloads
from host_device import HostDevice

CASES = (
    shapes.Case("granite-3-1b/w1/64t", "cpu", 32, 512, 1024, 1024, "models.json"),
    shapes.Case("granite-3-1b/w2/64t", "cpu", 32, 512, 512, 1024, "models.json"),
    shapes.Case("granite-3-1b/w1/256t", "cpu", 32, 2048, 1024, 1024, "models.json"),
    shapes.Case("olmoe-1b-7b/w1/16t", "cpu", 64, 128, 2048, 2048, "models.json"),
)
LIMIT_RATIO = 2.0
_NUM_CALLS = 2


class NumpyLoop:
    """One matrix product a group. 16-bit operands are widened group by group, since
    NumPy has no fast product for them."""

    name = "numpy loop"
    num_calls = 1

    def __init__(self, device: HostDevice, load: workloads.Workload):
        self._dims = load.dims
        self._a = device.view(load.a, load.dims.a_shape, load.dtype)
        self._b = device.view(load.copies[0], load.dims.b_shape, load.dtype)
        self._out = np.zeros(load.dims.out_shape, self._a.dtype)
        ends = np.cumsum(load.sizes).tolist()
        starts = [0, *ends[:-1]]
        self._groups = [
            (group, slice(*ends_of))
            for group, ends_of in enumerate(zip(starts, ends, strict=True))
            if ends_of[0] < ends_of[1]
        ]

    def run(self) -> None:
        for group, rows in self._groups:
            left = self._widen(self._a[rows])
            if self._dims.is_drhs:
                self._out[group] = left.T @ self._widen(self._b[rows])
            else:
                weights = self._widen(self._b[group])
                if self._dims.transpose_rhs:
                    weights = weights.T
                self._out[rows] = left @ weights

    def _widen(self, x: np.ndarray) -> np.ndarray:
        return x if x.dtype == np.float32 else x.astype(np.float32)

    def wait(self) -> None:
        pass


def measure(device: HostDevice, pool, case, product, layout, dtype, warm_up) -> dict:
    """One row: ours and the loop in turns."""
    load = workloads.make_workload(
        device,
        pool,
        case,
        pattern="dirichlet",
        product=product,
        layout=layout,
        dtype=dtype,
    )
    dims = load.dims
    product_of = jit_step.ours(dims, "device")
    ours = jit_step.JitContestant(
        device, "ours", product_of, load, num_calls=_NUM_CALLS
    )
    loop = NumpyLoop(device, load)
    timings = timing.time_on_host(
        [ours, loop],
        warm_up_s=warm_up,
        before_turns=ours.poison,
    )
    check = workloads.row_check(dims, load.sizes)
    err = device.rel_err(load.a, load.copies[0], ours.result, dtype, check)
    count = math.prod(dims.out_shape)
    if device.count_nonfinite(ours.result, count, dtype):
        raise RuntimeError(f"{case.name} {product}: the result is not finite")
    load.release(device)
    timed = timings["ours"]
    return {
        "case": case.name,
        "mode": "device",
        "product": product,
        **{axis: getattr(case, axis) for axis in "gmkn"},
        "dtype": dtype,
        "layout": layout,
        "sizes": "dirichlet",
        "timing": "cpu",
        "setting": f"{_NUM_CALLS} calls a step",
        "ms": round(timed.ms, 4),
        "spread_ms": round(timed.spread_ms, 4),
        "tb_s": round(load.moved_bytes / timed.ms * 1e-9, 5),
        "tflops": round(load.flops / timed.ms * 1e-9, 5),
        "rel_err": float(f"{err:.3g}"),
        "rows_checked": len(check.rows),
        "baselines_ms": {loop.name: round(timings[loop.name].ms, 4)},
    }


def machine() -> dict:
    """What stands in for the GPU: the processor, how busy it was, and the libraries."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    cores = len(os.sched_getaffinity(0))
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    packages = ("numpy", "scipy", "jaxlib")
    return {
        "name": f"{model}, {cores} cores",
        "python": platform.python_version(),
        "numpy_blas": f"{blas.get('name')} {blas.get('version')}",
        "blas_threads": os.environ["OPENBLAS_NUM_THREADS"],
        "xla_threads": os.environ["NPROC"],
        "load_before": round(os.getloadavg()[0], 2),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def _jobs(options: argparse.Namespace) -> Iterator[tuple]:
    for dtype in ("float32", "bfloat16"):
        for case in CASES:
            if options.dry_run:
                case = shapes.Case(case.name, "cpu", 4, 32, 16, 24, case.origin)
            for product in shapes.PRODUCTS:
                for layout in shapes.LAYOUTS:
                    yield case, product, layout, dtype


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=results.DIRECTORY)
    parser.add_argument("--warm-up", type=float, default=timing.WARM_UP_S)
    parser.add_argument("--dry-run", action="store_true", help="tiny shapes")
    options = parser.parse_args(argv)
    if options.dry_run and options.out == results.DIRECTORY:
        parser.error("--dry-run needs --out: its figures must not be kept")
    about = machine()
    device = HostDevice()
    rows, too_slow = [], []
    pools: dict[str, workloads.Pool] = {}
    for case, product, layout, dtype in _jobs(options):
        if dtype not in pools:
            largest = max(c.g * c.k * c.n for c in CASES) * shapes.ITEM_BYTES[dtype]
            size = largest if not options.dry_run else 1 << 16
            pools = {dtype: workloads.Pool(device, size, dtype)}
        row = measure(
            device, pools[dtype], case, product, layout, dtype, options.warm_up
        )
        rows.append(row)
        ratio = row["ms"] / row["baselines_ms"]["numpy loop"]
        line = (
            f"{case.name:<22} {product:<4} {layout} {dtype:<8} {row['ms']:9.3f} ms "
            f"{ratio:5.2f} of the loop's time, err {row['rel_err']:.1e}"
        )
        print(line, flush=True)
        if dtype == "float32" and ratio > LIMIT_RATIO and not options.dry_run:
            too_slow.append(line)
    path = results.write(results.document("cpu", rows, machine=about), options.out)
    print(f"wrote {path}")
    for line in too_slow:
        print(f"failed: more than {LIMIT_RATIO} times the loop's time: {line}")
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
