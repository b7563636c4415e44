# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Suites decode, middle and prefill: ours, the baselines and the read limit in turns.

benchmarks/README.md says how to run it and how to read a row.
"""

import argparse
import math
import os
import sys
import time
from pathlib import Path

# Operands and torch's memory lie beside JAX's pool, so JAX takes only what it needs.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import baselines
import gpu_facts
import raw_product
import results
import shapes
import stream_read
import timing
import workload as workloads
from jobs import Job, make_jobs

TIMINGS = ("graph", "rotating", "jit")
# Largest rel_err that rounding explains; a row above it is recorded and reported.
REL_ERR_LIMITS = {"bfloat16": 4e-3, "float16": 6e-4, "float32": 3e-5}
_POOL_SHARE = 0.6
_ROTATED_BYTES = 1 << 30


class Bench:
    """A run of one suite: the device, the limit, rows and what went wrong."""

    def __init__(self, device, options: argparse.Namespace):
        self.device = device
        self.options = options
        self.rows: list[dict] = []
        self.missing: dict[str, str] = {}
        self.failures: list[str] = []
        self.limit: stream_read.ReadLimit | None = None
        self.earlier = results.earlier(options.out, options.suite, device.name)
        if not options.append:
            self.earlier = None
        self.sampler = gpu_facts.Sampler()
        self.start = time.perf_counter()
        self._rotated_bytes = _ROTATED_BYTES >> (14 if options.dry_run else 0)
        self._limit_bytes = stream_read.READ_BYTES
        self._pool: workloads.Pool | None = None
        self._pool_dtype = ""

    def run(self, jobs: list[Job]) -> None:
        """Times the jobs until they are done or the budget is spent."""
        needed = max(self._pool_bytes(job) for job in jobs)
        if self.options.dry_run:
            self._limit_bytes = min(self._limit_bytes, needed)
        needed = max(needed, self._limit_bytes)
        for index, job in enumerate(jobs):
            spent = time.perf_counter() - self.start
            if self.options.budget and spent > self.options.budget:
                left = len(jobs) - index
                self.failures.append(f"budget of {self.options.budget} s: {left} left")
                break
            try:
                self._use_pool(job.dtype, needed)
                self._run_job(job)
            except Exception as error:
                self._fail(job, error)
                if self._is_device_lost():
                    self.failures.append(f"device lost: {len(jobs) - index - 1} left")
                    break
            self.save()
        if self.limit is not None and not self._is_device_lost():
            self._measure_limit()
        self.sampler.stop()
        self.save()

    def _pool_bytes(self, job: Job) -> int:
        sizes = shapes.group_sizes(job.case, job.pattern)
        rotated_bytes = self._rotated_bytes if "rotating" in job.timings else 0
        return workloads.pool_bytes(job.case, sizes, job.dtype, rotated_bytes)

    def _use_pool(self, dtype: str, size_bytes: int) -> None:
        if self._pool is None or self._pool_dtype != dtype:
            if self._pool is not None:
                self.device.free(self._pool.address)
                self._pool = None
            limit = int(_POOL_SHARE * self.device.free_bytes)
            self._pool = workloads.Pool(self.device, min(size_bytes, limit), dtype)
            self._pool_dtype = dtype
        if self.limit is None:
            self._measure_limit()

    def _measure_limit(self) -> None:
        """Keeps the faster reading: the run's figures are held against it."""
        address = self._pool.address
        found = stream_read.measure(self.device, address, self._limit_bytes)
        print(f"streaming read: {found.tb_s:.3f} TB/s ({found.config})", flush=True)
        if self.limit is None or found.tb_s > self.limit.tb_s:
            self.limit = found

    def _fail(self, what, error: BaseException) -> None:
        self.failures.append(f"{what}: {baselines.first_line(error)}")
        print(f"failed: {self.failures[-1]}", flush=True)

    def _is_device_lost(self) -> bool:
        try:
            self.device.synchronize()
        except Exception:
            return True
        return False

    def _run_job(self, job: Job) -> None:
        if (needed := self._pool_bytes(job)) > self._pool.size_bytes:
            raise MemoryError(f"needs a pool of {needed >> 20} MiB")
        for kind in job.timings:
            load = workloads.make_workload(
                self.device,
                self._pool,
                job.case,
                pattern=job.pattern,
                product=job.product,
                layout=job.layout,
                dtype=job.dtype,
                rotated_bytes=self._rotated_bytes if kind == "rotating" else 0,
            )
            try:
                measure = self._measure_jit if kind == "jit" else self._measure_graph
                measure(load, kind)
            except Exception as error:
                self._fail(f"{job} {kind}", error)
                if self._is_device_lost():
                    raise
            finally:
                load.release(self.device)

    def _measure_graph(self, load: workloads.Workload, kind: str) -> None:
        num_calls = max(timing.NUM_CALLS, len(load.copies))

        def contestant(name: str, **options) -> timing.GraphContestant:
            issue = raw_product.launcher(self.device, load, **options)
            return timing.GraphContestant(self.device, name, issue, num_calls)

        ours = {"": contestant("ours")}
        if self.options.early and not load.dims.is_drhs:
            ours[", started early"] = contestant("ours, early", starts_early=True)
        configs = []
        if self.options.configs:
            names = raw_product.config_names(self.device, load)
            configs = [contestant(name, config=name) for name in names]
        read = stream_read.read_contestant(
            self.device,
            self.limit.config,
            workloads.read_places(self._pool, load),
            load.moved_bytes,
            num_calls=num_calls,
        )
        others, missing = baselines.graph_baselines(
            self.device, load, num_calls, self.options.baselines
        )
        contestants = [*ours.values(), read, *others, *configs]
        last = load.copies[(num_calls - 1) % len(load.copies)]
        start = time.perf_counter()
        try:
            timings = timing.time_graphs(
                self.device,
                contestants,
                warm_up_s=self.options.warm_up,
                before_turns=lambda: self._poison(load),
            )
            wrong = self._wrong_results(load, last, others)
            checks = {
                c.name: self._rerun(load, last, c) for c in (*ours.values(), *configs)
            }
        finally:
            for contestant in contestants:
                contestant.release()
        for c in configs:
            if not checks[c.name][0] <= REL_ERR_LIMITS[load.dtype]:
                wrong[c.name] = f"wrong result: rel_err {checks[c.name][0]:.2g}"
                self.failures.append(f"{load.case.name} {c.name}: {wrong[c.name]}")
        self._note_missing(load, {**baselines.name_dense(missing), **wrong})
        own = {c.name for c in ours.values()}
        times = {n: t.ms for n, t in timings.items() if n not in wrong and n not in own}
        setting = f"{num_calls} calls a graph"
        if kind == "rotating":
            setting += f", {len(load.copies)} copies of the weights"
        for how, c in ours.items():
            self._add_row(
                load,
                "device",
                kind,
                setting + how,
                timings[c.name],
                baselines.merge_dense(times),
                checks[c.name],
                start,
            )

    def _rerun(self, load, last: int, contestant) -> tuple[float, int | None]:
        """rel_err of what a replay leaves where NaN was: ours share one result."""
        self._poison(load)
        contestant.run()
        return self._check(load, last, load.out)

    def _measure_jit(self, load: workloads.Workload, kind: str) -> None:
        import jit_step

        ours = []
        for mode in self.options.modes:
            try:
                product = jit_step.ours(load.dims, mode)
                ours.append(jit_step.JitContestant(self.device, mode, product, load))
            except Exception as error:
                self._fail(f"{load.case.name} {kind} {mode}", error)
        others, missing = jit_step.jit_baselines(
            self.device, load, self.options.baselines
        )
        start = time.perf_counter()
        contestants = [*ours, *others]
        try:
            timings = timing.time_on_host(
                contestants,
                warm_up_s=self.options.warm_up,
                before_turns=lambda: [c.poison() for c in contestants],
            )
            checks = {c.name: self._check(load, load.copies[0], c.result) for c in ours}
            wrong = self._wrong_results(load, load.copies[0], others)
        finally:
            for contestant in contestants:
                contestant.release()
        self._note_missing(load, {**missing, **wrong})
        baselines_ms = {
            c.name: timings[c.name].ms for c in others if c.name not in wrong
        }
        for contestant in ours:
            mode = contestant.name
            self._add_row(
                load,
                mode,
                kind,
                f"{contestant.num_calls} calls a step",
                timings[mode],
                baselines_ms,
                checks[mode],
                start,
            )

    def _poison(self, load: workloads.Workload) -> None:
        self.device.fill_bytes(load.out, 0xFF, load.out_bytes)

    def _check(
        self, load: workloads.Workload, b: int, out: int
    ) -> tuple[float, int | None]:
        """rel_err of a result, and how many of its rows that covers if not all."""
        check = workloads.row_check(load.dims, load.sizes)
        count = math.prod(load.dims.out_shape)
        if self.device.count_nonfinite(out, count, load.dtype):
            return float("nan"), None
        err = self.device.rel_err(load.a, b, out, load.dtype, check)
        num_rows = count // max(load.dims.n, 1)
        return err, None if len(check.rows) == num_rows else len(check.rows)

    def _wrong_results(
        self, load: workloads.Workload, b: int, others
    ) -> dict[str, str]:
        """Baselines whose own last result is wrong: they do not count."""
        wrong = {}
        for contestant in others:
            if contestant.name.startswith("dense"):
                continue
            err, _ = self._check(load, b, baselines.result_address(contestant))
            if not err <= 2 * REL_ERR_LIMITS[load.dtype]:
                wrong[contestant.name] = f"wrong result: rel_err {err:.2g}"
        return wrong

    def _note_missing(self, load, missing: dict[str, str]) -> None:
        """Keeps the first reason: most baselines that are missing are so everywhere."""
        for name, reason in missing.items():
            self.missing.setdefault(name, f"{load.case.name}: {reason}")

    def _add_row(
        self, load, mode, kind, setting, timed, baselines_ms, checked, start
    ) -> None:
        err, rows_checked = checked
        label = f"{load.case.name} {load.pattern} {load.product} {kind} {mode}"
        if not math.isfinite(err):
            self.failures.append(f"{label}: result not finite, no row")
            return
        if err > REL_ERR_LIMITS[load.dtype]:
            self.failures.append(f"{label}: rel_err {err:.2g} is too large")
        case = load.case
        row = {
            "case": case.name,
            "mode": mode,
            "product": load.product,
            **{axis: getattr(case, axis) for axis in "gmkn"},
            "dtype": load.dtype,
            "layout": load.layout,
            "sizes": load.pattern,
            "timing": kind,
            "setting": setting,
            "ms": round(timed.ms, 6),
            "spread_ms": round(timed.spread_ms, 6),
            "tb_s": round(load.moved_bytes / timed.ms * 1e-9, 4),
            "tflops": round(load.flops / timed.ms * 1e-9, 2),
            "rel_err": float(f"{err:.3g}"),
            "baselines_ms": {n: round(ms, 6) for n, ms in baselines_ms.items()},
            **self.sampler.median_since(start),
        }
        if rows_checked is not None:
            row["rows_checked"] = rows_checked
        self.rows.append(row)
        print(row_line(row, self.limit.tb_s), flush=True)

    def document(self) -> dict:
        facts = gpu_facts.query()
        fallback = {"sm_clock_mhz": 0, "power_w": 0}
        return results.document(
            self.options.suite,
            self.rows,
            gpu=facts["gpu"] or self.device.name,
            driver=facts["driver"] or "unknown",
            cuda=self.device.cuda_version,
            read_tb_s=round(self.limit.tb_s, 4) if self.limit else None,
            **{**fallback, **self.sampler.median_since(self.start)},
            versions=baselines.versions(),
            missing={**baselines.NOT_RUN, **self.missing},
            failures=self.failures,
        )

    def save(self) -> None:
        """Writes what there is, so that a run that is stopped leaves its rows."""
        if self.limit is not None:
            document = self.document()
            if self.earlier is not None:
                document = results.merge(self.earlier, document)
            results.write(document, self.options.out)


def row_line(row: dict, read_tb_s: float) -> str:
    """One line of the table: the figure, the limit, best baseline, best peer."""
    mode = "early" if row["setting"].endswith("early") else row["mode"]
    what = (row["sizes"][:9], row["product"], row["layout"], row["dtype"][:4])
    text = (
        f"{row['case']:<24} {' '.join(what):<24} {row['timing']:<8} {mode:<6} "
        f"{row['ms']:8.4f} ms {row['tb_s'] / read_tb_s:5.3f} of read "
        f"{row['tflops']:5.0f} TF, err {row['rel_err']:.0e}"
    )
    others = {
        name: ms
        for name, ms in row["baselines_ms"].items()
        if name != "stream_read" and not name.startswith("gg_")
    }
    if others:
        best = min(others, key=others.get)
        text += f"; {best} {others[best]:.4f}"
    peer = shapes.peer_row(row["case"])
    if peer and (row["product"], row["sizes"]) == ("fwd", "dirichlet"):
        text += f"; peer {peer['best_peer_ms']:.4f} {peer['best_peer_vs_read']:.3f}"
    return text


def print_table(bench: Bench) -> None:
    print(f"\nsuite {bench.options.suite}: {len(bench.rows)} rows", end="")
    if bench.limit is None:
        print(", no streaming read")
    else:
        print(f", streaming read {bench.limit.tb_s:.3f} TB/s")
        for row in bench.rows:
            print(row_line(row, bench.limit.tb_s))
    for name, reason in {**baselines.NOT_RUN, **bench.missing}.items():
        print(f"missing: {name}: {reason}")
    for line in results.folded(bench.failures):
        print(f"failed: {line}")


def _list_of(allowed: tuple[str, ...]):
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(part for part in text.split(",") if part)
        if unknown := [name for name in names if name not in allowed]:
            raise argparse.ArgumentTypeError(
                f"must be of {', '.join(allowed)}; got {', '.join(unknown)}"
            )
        return names

    return parse


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    every = baselines.GRAPH_BASELINES + baselines.JIT_BASELINES
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--suite", choices=shapes.SUITES, default="decode")
    add("--rows", choices=("peers", "models", "all"), default="peers")
    add("--cases", type=lambda t: tuple(t.split(",")), default=("*",), metavar="GLOBS")
    add("--patterns", type=_list_of(tuple(shapes.PATTERNS)), default=())
    add("--products", type=_list_of(shapes.PRODUCTS), default=("fwd",))
    add("--layouts", type=_list_of(shapes.LAYOUTS), default=("gkn",))
    add("--dtypes", type=_list_of(tuple(shapes.ITEM_BYTES)), default=("bfloat16",))
    add("--timings", type=_list_of(TIMINGS), default=TIMINGS)
    add("--modes", type=_list_of(("auto", "device", "sync", "async")))
    add("--baselines", type=_list_of(every), default=every, help="may be empty")
    add("--configs", action="store_true", help="time every kernel that can do it")
    add("--early", action="store_true", help="also start each call early")
    add("--warm-up", type=float, default=timing.WARM_UP_S, metavar="SECONDS")
    add("--budget", type=float, default=0, metavar="SECONDS", help="0: none")
    add("--out", type=Path, default=results.DIRECTORY, metavar="FOLDER")
    add("--append", action="store_true", help="keep the rows of the earlier file")
    add("--list", action="store_true", help="print the cases and stop")
    add("--dry-run", action="store_true", help="small shapes on the CPU, no figures")
    options = parser.parse_args(argv)
    options.modes = options.modes or ("device", "sync")
    if options.dry_run and options.out == results.DIRECTORY:
        parser.error("--dry-run needs --out: its figures must not be kept")
    return options


def make_device(is_dry_run: bool):
    if is_dry_run:
        from host_device import HostDevice

        return HostDevice()
    from cuda_device import CudaDevice

    return CudaDevice()


def main(argv: list[str] | None = None) -> int:
    options = parse_args(argv)
    jobs = make_jobs(options)
    if options.list:
        for job in jobs:
            case = job.case
            print(f"{job}: g={case.g} m={case.m} k={case.k} n={case.n} ({case.origin})")
        return 0
    bench = Bench(make_device(options.dry_run), options)
    bench.run(jobs)
    print_table(bench)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
