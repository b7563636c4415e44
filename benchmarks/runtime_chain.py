# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of suite `runtime` about a jitted chain of calls in device mode: what the GPU
does between the first kernel's start and the last one's end, beside our kernels."""

import jax
import jax.numpy as jnp
import numpy as np
from runtime_threads import row

import graphsafe_gg as gg

NUM_CALLS = 16
TRACED_STEPS = 4
SHAPE = (128, 512, 2048, 1536)  # w1 of Qwen3-30B-A3B, 64 tokens


def chain_step():
    """jitted (lhs, rhs, sizes) -> every result; each call waits for the one before."""

    def step(lhs, rhs, sizes):
        results = []
        for index in range(NUM_CALLS):
            out = gg.grouped_gemm(lhs, rhs, sizes, mode="device", name=f"chain.{index}")
            lhs, out = jax.lax.optimization_barrier((lhs, out))
            results.append(out)
        return results

    return jax.jit(step)


def chain(tracer, shape=SHAPE) -> list[dict]:
    from cupti_trace import GRAPH_LAUNCHES

    g, m, k, n = shape
    keys = jax.random.split(jax.random.key(0))
    lhs = jax.random.normal(keys[0], (m, k), jnp.bfloat16)
    rhs = jax.random.normal(keys[1], (g, k, n), jnp.bfloat16)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(m, rng.dirichlet(np.full(g, 4.0)))
    sizes = jnp.asarray(drawn.astype(np.int32))
    step = chain_step()
    for _ in range(4):
        jax.block_until_ready(step(lhs, rhs, sizes))
    with tracer.trace() as trace:
        for _ in range(TRACED_STEPS):
            jax.block_until_ready(step(lhs, rhs, sizes))
    launches = trace.num_calls(GRAPH_LAUNCHES) / TRACED_STEPS
    return [
        row("chain/beyond-kernels", beyond_kernels_us(trace.device_work), "us/call"),
        row("chain/graph-launches", launches, "launches/step"),
    ]


def beyond_kernels_us(device_work) -> float:
    """Microseconds a call, median over the steps: from a step's first kernel of ours to
    its last one's end, less those kernels' own time."""
    ours = [record for record in device_work if record.name.startswith("gg_fwd")]
    if len(ours) != NUM_CALLS * TRACED_STEPS:
        raise RuntimeError(f"a kernel a call was expected; got {len(ours)}")
    beyond = []
    for first in range(0, len(ours), NUM_CALLS):
        step = ours[first : first + NUM_CALLS]
        busy = sum(record.end_ns - record.start_ns for record in step)
        beyond.append((step[-1].end_ns - step[0].start_ns - busy) / NUM_CALLS / 1e3)
    return float(np.median(beyond))
