# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of suite `runtime` over many steps: sizes under threads, pinned memory."""

import collections
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

import graphsafe_gg as gg
from graphsafe_gg import _ffi

NUM_HELD = 20


def row(case: str, value: float, unit: str) -> dict:
    return {"case": case, "value": float(np.round(value, 4)), "unit": unit}


def device_stats() -> dict:
    return gg.stats()["devices"].get(0, {})


def run_in_threads(work, num_threads: int) -> None:
    failures = []

    def guarded(index: int) -> None:
        try:
            work(index)
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("; ".join(failures[:3]))


def checked_program(name: str, num_groups: int, rows: int, width: int, salt: int):
    """jitted (key) -> number of wrong elements, from two async call sites.

    Group i's matrix is (i + 1) times the identity, so the result says whose sizes the
    GEMM used. Every call site has a number of groups of its own, so that the size of
    its tickets tells it from the others.
    """

    def one(x, key, site):
        g = num_groups + site
        identity = jnp.eye(width, dtype=jnp.float32)
        scales = 1.0 + jnp.arange(g, dtype=jnp.float32)
        ids = jax.random.randint(key, (rows,), 0, g)
        sizes = jnp.sum(ids[:, None] == jnp.arange(g), 0, dtype=jnp.int32)
        x, held = gg.copy_group_sizes(sizes, before=x)
        rhs = identity * scales[:, None, None]
        out = gg.grouped_gemm(x * 1.0, rhs, held, mode="async", name=f"{name}.{site}")
        # No jnp.searchsorted: its loop is one more thing that threads share.
        ends = jnp.cumsum(sizes)
        group = jnp.sum(jnp.arange(rows)[:, None] >= ends[None, :], axis=1)
        return jnp.sum(out != x * (1.0 + group.astype(jnp.float32))[:, None])

    @jax.jit
    def program(key):
        x = jnp.ones((rows, width)) * (1.0 + salt)
        keys = jax.random.split(key, 2)
        return one(x, keys[0], 0) + one(x + 0.0, keys[1], 1)

    return program


def run_threads(num_threads: int, copies: int, library: bool) -> list[dict]:
    """Threads that call functions in turn, results held back. With `library` every
    product is cuBLASLt's, which trusts the sizes of the host: a guard that trips is
    another step's sizes."""
    case = "threads-cublaslt" if library else "threads"
    programs = [checked_program(f"{case}.{g}", g, 64, 16, g) for g in (8, 16, 24, 32)]
    wrong = [0] * num_threads
    steps = -(-copies // (2 * num_threads))

    def work(index: int) -> None:
        held, key = collections.deque(), jax.random.key(index)
        for step in range(steps):
            program = programs[(index + step) % len(programs)]
            held.append(program(jax.random.fold_in(key, step)))
            if len(held) > NUM_HELD:
                wrong[index] += int(held.popleft())
        wrong[index] += sum(int(value) for value in held)

    copies_before = device_stats().get("copies", 0)
    start = time.perf_counter()
    _ffi.set_cublaslt_use("always" if library else "off")
    try:
        run_in_threads(work, num_threads)
    finally:
        _ffi.set_cublaslt_use("auto")
    seconds = time.perf_counter() - start
    stats = device_stats()
    found = stats.get("sites", {}).items()
    sites = [site for name, site in found if name.startswith(f"{case}.")]
    fallbacks = collections.Counter()
    for site in sites:
        fallbacks.update(site["fallbacks"])
    rows = [
        row(f"{case}/wrong", sum(wrong), "elements"),
        row(f"{case}/copies", stats.get("copies", 0) - copies_before, "copies"),
        row(f"{case}/seconds", seconds, "s"),
        row(f"{case}/slots", stats.get("slots", 0), "slots"),
        *(row(f"{case}/fallbacks/{k}", v, "calls") for k, v in fallbacks.items()),
    ]
    if library:
        launches = sum(s["host_size_launches"].get("cublaslt", 0) for s in sites)
        tripped = sum(site["guards_tripped"] for site in sites)
        rows.append(row(f"{case}/launches", launches, "calls"))
        rows.append(row(f"{case}/guards-tripped", tripped, "calls"))
    return rows


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
        held = collections.deque()
        for step in range(steps):
            held.append(program(x, jax.random.key(index * steps + step)))
            if len(held) > 4:
                jax.block_until_ready(held.popleft())
            peak.append(device_stats().get("pinned_bytes", 0))

    run_in_threads(work, num_threads)
    return [row("pinned/peak", max(peak, default=0), "bytes")]


def pinned_growth(steps: int, num_shapes: int, num_compilations: int) -> list[dict]:
    """Pinned bytes after a tenth of the steps and at the end: shapes change at every
    step, and the programs are compiled anew now and then."""

    def compile_anew():
        shapes = range(num_shapes)
        return [checked_program(f"growth.{i}", 8 + i, 32, 16, i) for i in shapes]

    early, wrong, held = 0, 0, collections.deque()
    keys = [jax.random.key(seed) for seed in range(64)]
    for step in range(steps):
        if step % max(1, steps // num_compilations) == 0:
            programs = compile_anew()
        held.append(programs[step % num_shapes](keys[step % len(keys)]))
        if len(held) > NUM_HELD:
            wrong += int(held.popleft())
        if step == steps // 10:
            early = device_stats().get("pinned_bytes", 0)
    wrong += sum(int(value) for value in held)
    after = device_stats().get("pinned_bytes", 0)
    return [
        row("pinned/growth", after - early, "bytes"),
        row("pinned/growth-steps", steps, "steps"),
        row("pinned/growth-compilations", num_compilations * num_shapes, "programs"),
        row("pinned/growth-wrong", wrong, "elements"),
    ]
