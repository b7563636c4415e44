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
import threading
import time

import jax
import jax.numpy as jnp
import moe_step
import numpy as np

import graphsafe_gg as gg

NUM_LAYERS = 8
BUBBLE_STEPS = 6


def device_stats() -> dict:
    return gg.stats()["devices"].get(0, {})


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


# --- threads -------------------------------------------------------------------------


def checked_program(num_groups: int, rows: int, width: int, salt: int):
    """jitted (key) -> number of wrong elements, from two async call sites.

    Group i's matrix is (i + 1) times the identity, so the result says whose sizes the
    GEMM used.
    """
    identity = jnp.eye(width, dtype=jnp.float32)
    rhs = identity * (1.0 + jnp.arange(num_groups, dtype=jnp.float32))[:, None, None]

    def one(x, ids, name):
        sizes = jnp.sum(ids[:, None] == jnp.arange(num_groups), 0, dtype=jnp.int32)
        x, held = gg.copy_group_sizes(sizes, before=x)
        out = gg.grouped_gemm(x * 1.0, rhs, held, mode="async", name=name)
        ends = jnp.cumsum(sizes)
        group = jnp.searchsorted(ends, jnp.arange(rows), side="right")
        return jnp.sum(out != x * (1.0 + group.astype(jnp.float32))[:, None])

    @jax.jit
    def program(key):
        keys = jax.random.split(key, 4)
        x = jnp.ones((rows, width)) * (1.0 + salt)
        wrong = 0
        for i in range(2):
            ids = jax.random.randint(keys[i], (rows,), 0, num_groups)
            x, held = x + 0.0, ids
            wrong = wrong + one(x, held, f"threads.{salt}.{i}")
        return wrong

    return program


def run_threads(num_threads: int, copies: int) -> list[dict]:
    programs = [checked_program(g, 64, 16, g) for g in (8, 16, 24, 32)]
    copies_before = device_stats().get("copies", 0)
    steps = -(-copies // (2 * num_threads))
    wrong, failures = [0] * num_threads, []

    def work(index: int) -> None:
        held, key = [], jax.random.key(index)
        try:
            for step in range(steps):
                program = programs[(index + step) % len(programs)]
                held.append(program(jax.random.fold_in(key, step)))
                if len(held) > 20:
                    wrong[index] += int(held.pop(0))
            wrong[index] += sum(int(value) for value in held)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(num_threads)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("; ".join(failures[:3]))
    stats = device_stats()
    fallbacks: dict[str, int] = {}
    for site in stats.get("sites", {}).values():
        for reason, count in site["fallbacks"].items():
            fallbacks[reason] = fallbacks.get(reason, 0) + count
    return [
        row("threads/wrong", sum(wrong), "elements"),
        row("threads/copies", stats.get("copies", 0) - copies_before, "copies"),
        row("threads/seconds", time.perf_counter() - start, "s"),
        row("threads/slots", stats.get("slots", 0), "slots"),
        *(row(f"threads/fallbacks/{k}", v, "calls") for k, v in fallbacks.items()),
    ]


# --- pinned memory -------------------------------------------------------------------


def pinned_program(num_sites: int, num_groups: int, rows: int, width: int):
    rhs = jnp.ones((num_groups, width, width), jnp.float32)

    @jax.jit
    def program(x, key):
        for i in range(num_sites):
            ids = jax.random.randint(jax.random.fold_in(key, i), (rows,), 0, num_groups)
            sizes = jnp.sum(ids[:, None] == jnp.arange(num_groups), 0, dtype=jnp.int32)
            x, held = gg.copy_group_sizes(sizes, before=x)
            out = gg.grouped_gemm(x, rhs, held, mode="async", name=f"pinned.{i}")
            x = jnp.tanh(out)
        return x

    return program, jnp.ones((rows, width))


def pinned(num_sites: int, num_threads: int, steps: int) -> list[dict]:
    program, x = pinned_program(num_sites, 128, 128, 16)
    peak = []

    def work(index: int) -> None:
        held = []
        for step in range(steps):
            held.append(program(x, jax.random.key(index * steps + step)))
            if len(held) > 4:
                jax.block_until_ready(held.pop(0))
            peak.append(device_stats().get("pinned_bytes", 0))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [row("pinned/peak", max(peak, default=0), "bytes")]


def pinned_growth(steps: int, num_shapes: int) -> list[dict]:
    """Pinned bytes after a tenth of the steps and at the end, shapes changing."""
    after, early = 0, 0
    programs = [checked_program(8 + i, 32, 16, 100 + i) for i in range(num_shapes)]
    for step in range(steps):
        jax.block_until_ready(programs[step % num_shapes](jax.random.key(step)))
        if step == steps // 10:
            early = device_stats().get("pinned_bytes", 0)
    after = device_stats().get("pinned_bytes", 0)
    return [
        row("pinned/growth", after - early, "bytes"),
        row("pinned/growth-steps", steps, "steps"),
    ]


# --- host time -----------------------------------------------------------------------


def host_times() -> list[dict]:
    """Each handler over a driver whose calls return at once; needs the test build."""
    from graphsafe_gg import _testing

    return [
        row(f"host/{mode}", _testing.time_handler(mode), "us")
        for mode in ("copy", "device", "sync", "async")
    ]


def row(case: str, value: float, unit: str) -> dict:
    return {"case": case, "value": float(np.round(value, 4)), "unit": unit}


def parts(options):
    small = options.small
    if not small:
        from cupti_trace import Tracer

        tracer = Tracer()
        yield "bubbles", lambda: bubbles(tracer, width=4096, num_products=3)
    yield "host", host_times
    yield "threads", lambda: run_threads(8, 200 if small else options.copies)
    yield "pinned", lambda: pinned(4 if small else 64, 2 if small else 8, 3)
    yield "growth", lambda: pinned_growth(20 if small else options.growth_steps, 4)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", help="folder for the result file")
    parser.add_argument("--copies", type=int, default=100_000)
    parser.add_argument("--growth-steps", type=int, default=20_000)
    parser.add_argument("--small", action="store_true", help="for any CPU")
    options = parser.parse_args(argv)
    rows, failures = [], []
    for name, part in parts(options):
        start = time.perf_counter()
        try:
            rows += part()
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__}: {error}")
        print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
    if options.out:
        import gpu_facts
        import results

        doc = results.document("runtime", rows, failures=failures, **gpu_facts.query())
        results.write(doc, pathlib.Path(options.out))
    for one in rows:
        print(f"{one['case']:32} {one['value']:>14} {one['unit']}")
    for failure in failures:
        print("FAILED", failure[:400])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
