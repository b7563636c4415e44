# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Suite `runtime`: what the early copy costs and what it never does.

Rows {"case", "value", "unit"}: bubbles in front of a GEMM, graph launches and waits of
a device-mode step, wrong results under threads, pinned memory.
"""

import argparse
import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import moe_step
from runtime_chain import chain
from runtime_scan import scans
from runtime_threads import device_stats, pinned, pinned_growth, row, run_threads

import graphsafe_gg as gg

NUM_LAYERS = 8
BUBBLE_STEPS = 6


# --- bubbles -------------------------------------------------------------------------


def bubble_step(mode: str, width: int, num_products: int):
    """Eight layers: sizes, then independent work, then the GEMM that needs both."""
    gg_mode = "async" if mode == "pr2213" else mode

    def layer(x, sizes, dense, rhs, name):
        rows = x
        if mode == "async":
            rows, sizes = gg.copy_group_sizes(sizes, before=rows)
        elif mode == "pr2213":
            sizes = moe_step.late_copy(sizes)
        for _ in range(num_products):
            rows = jnp.tanh(rows @ dense)
        out = gg.grouped_gemm(rows, rhs, sizes, mode=gg_mode, name=name)
        return jnp.tanh(out)

    @jax.jit
    def step(x, seed, dense, rhs):
        for i in range(NUM_LAYERS):
            shift = jnp.int32(jnp.abs(x[0, 0]) * 0) + seed + i
            ids = (jnp.arange(x.shape[0], dtype=jnp.int32) * 7 + shift) % rhs.shape[0]
            sizes = jnp.sum(
                ids[:, None] == jnp.arange(rhs.shape[0]), 0, dtype=jnp.int32
            )
            x = layer(x, sizes, dense, rhs, f"bubble.{mode}.{i}")
        return x

    def operands():
        keys = jax.random.split(jax.random.key(0), 3)
        scale = width**-0.5
        x = jax.random.normal(keys[0], (width, width)).astype(jnp.bfloat16)
        dense = (jax.random.normal(keys[1], (width, width)) * scale).astype(
            jnp.bfloat16
        )
        # So many groups that the own kernels run: the trace looks for their names.
        rhs = (jax.random.normal(keys[2], (16, width, width)) * scale).astype(x.dtype)
        return x, dense, rhs

    return step, operands()


def bubbles(tracer, width: int, num_products: int) -> list[dict]:
    rows = []
    for mode in ("sync", "pr2213", "async", "device"):
        step, (x, dense, rhs) = bubble_step(mode, width, num_products)
        # On the device before the trace: a transfer would count as a waiting call.
        seeds = [jax.block_until_ready(jnp.int32(i)) for i in range(BUBBLE_STEPS)]
        for seed in seeds[:4]:
            jax.block_until_ready(step(x, seed, dense, rhs))
        before = device_stats()
        with tracer.trace() as trace:
            for seed in seeds:
                out = step(x, seed, dense, rhs)
            jax.block_until_ready(out)
        idle = trace.idle_before_us(lambda name: name.startswith("gg_fwd"))
        rows.append(row(f"bubble/{mode}", statistics.median(idle), "us"))
        rows.append(row(f"bubble-largest/{mode}", max(idle), "us"))
        after = device_stats()
        waits = after["host_waits"] - before["host_waits"]
        waited = after["host_wait_us"] - before["host_wait_us"]
        rows.append(row(f"host-wait/{mode}", waited / max(waits, 1), "us"))
        if mode == "device":
            rows += device_step_rows(trace)
    return rows


def device_step_rows(trace) -> list[dict]:
    from cupti_trace import GRAPH_LAUNCHES, WAITING_CALLS

    # One wait is the benchmark's own, for the last result.
    syncs = max(0, trace.num_calls(WAITING_CALLS) - 1) / BUBBLE_STEPS
    return [
        row("step/syncs", syncs, "calls/step"),
        row("step/d2h", trace.num_copies("DtoH") / BUBBLE_STEPS, "copies/step"),
        row("step/graph-launches", trace.num_calls(GRAPH_LAUNCHES) / BUBBLE_STEPS, "1"),
    ]


# --- host time -----------------------------------------------------------------------


def host_times() -> list[dict]:
    """Each handler over a driver whose calls return at once; needs the test build."""
    from graphsafe_gg import _testing

    return [
        row(f"host/{mode}", _testing.time_handler(mode), "us")
        for mode in ("copy", "device", "sync", "async")
    ]


PARTS = ("bubbles", "scan", "chain", "host", "threads", "library", "pinned", "growth")
TRACED = ("bubbles", "scan", "chain")


def make_parts(options) -> dict:
    """Name to function, in order. On a CPU there is nothing to trace and no library."""
    small = options.small
    tracer = None
    if not small and any(name in TRACED for name in options.parts):
        from cupti_trace import Tracer

        tracer = Tracer()
    copies, steps = (200, 20) if small else (options.copies, options.growth_steps)
    known = {
        "bubbles": lambda: bubbles(tracer, width=4096, num_products=3),
        "scan": lambda: scans(tracer),
        "chain": lambda: chain(tracer),
        "host": host_times,
        "threads": lambda: run_threads(8, copies, False),
        "library": lambda: run_threads(8, copies // 10, True),
        "pinned": lambda: pinned(4 if small else 64, 2 if small else 8, 3),
        "growth": lambda: pinned_growth(steps, 4, 2 if small else 5),
    }
    names = [name for name in PARTS if name in options.parts]
    if small:
        names = [name for name in names if name not in (*TRACED, "library")]
    return {name: known[name] for name in names}


def write(options, rows: list[dict], failures: list[str]) -> None:
    import gpu_facts
    import results

    facts = gpu_facts.query()
    doc = results.document("runtime", rows, failures=failures, **facts)
    folder = pathlib.Path(options.out)
    before = results.earlier(folder, "runtime", doc["gpu"])
    if options.append and before is not None:
        doc = results.merge(before, doc)
    results.write(doc, folder)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="folder for the result file")
    parser.add_argument("--copies", type=int, default=100_000)
    parser.add_argument("--growth-steps", type=int, default=100_000)
    parser.add_argument("--small", action="store_true", help="for any CPU")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--append", action="store_true", help="keep the file's rows")
    options = parser.parse_args(argv)
    rows, failures = [], []
    for name, part in make_parts(options).items():
        start = time.perf_counter()
        try:
            rows += part()
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
    if options.out:
        write(options, rows, failures)
    for one in rows:
        print(f"{one['case']:32} {one['value']:>14} {one['unit']}")
    for failure in failures:
        print("FAILED", failure[:400])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
