# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of suite `runtime` about a scan over layers: captures in steady state."""

import jax
import jax.numpy as jnp
from runtime_threads import row

import graphsafe_gg as gg

NUM_LAYERS = 48
NUM_GROUPS = 16
TRACED_STEPS = 4


def scan_step(is_stacked: bool):
    """jitted (x, rhs (layers, g, k, k)) -> x: the kernel reads the index of the layer,
    or the scan slices the weights."""

    def layer(x, rhs, index):
        rows = jnp.arange(x.shape[0], dtype=jnp.int32)
        ids = (rows * 7 + index + jnp.int32(jnp.abs(x[0, 0]) * 8)) % NUM_GROUPS
        sizes = jnp.sum(ids[:, None] == jnp.arange(NUM_GROUPS), 0, dtype=jnp.int32)
        layer = index if is_stacked else None
        name = "scan.stacked" if is_stacked else "scan.sliced"
        return jnp.tanh(
            gg.grouped_gemm(x, rhs, sizes, mode="device", layer=layer, name=name)
        )

    @jax.jit
    def step(x, rhs):
        indices = jnp.arange(rhs.shape[0], dtype=jnp.int32)
        if is_stacked:
            return jax.lax.scan(lambda x, i: (layer(x, rhs, i), None), x, indices)[0]
        each = (rhs, indices)
        return jax.lax.scan(lambda x, of: (layer(x, *of), None), x, each)[0]

    return step


def scans(tracer, num_rows: int = 128, width: int = 256) -> list[dict]:
    from cupti_trace import CAPTURES, GRAPH_LAUNCHES

    shape = (NUM_LAYERS, NUM_GROUPS, width, width)
    rhs = (jax.random.normal(jax.random.key(0), shape) * width**-0.5).astype(
        jnp.bfloat16
    )
    start = jax.random.normal(jax.random.key(1), (num_rows, width), jnp.bfloat16)
    rows, results = [], {}
    for case, is_stacked in (("scan", True), ("scan-sliced", False)):
        step, x = scan_step(is_stacked), start
        for _ in range(4):
            x = step(x, rhs)
        jax.block_until_ready(x)
        with tracer.trace() as trace:
            for _ in range(TRACED_STEPS):
                x = step(x, rhs)
            jax.block_until_ready(x)
        results[case] = x
        captures = trace.num_calls(CAPTURES) / TRACED_STEPS
        launches = trace.num_calls(GRAPH_LAUNCHES) / TRACED_STEPS
        rows.append(row(f"{case}/captures-per-step", captures, "captures/step"))
        rows.append(row(f"{case}/graph-launches", launches, "launches/step"))
    if not bool((results["scan"] == results["scan-sliced"]).all()):
        raise RuntimeError("the stacked and the sliced weights give other bits")
    return rows
