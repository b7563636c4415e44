# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""JAX's persistent compilation cache: a second process compiles nothing anew, and its
errors and statistics still have names."""

import json

import pytest
from support.child_process import output_of

PROGRAM = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from jax import monitoring
jax.config.update("jax_compilation_cache_dir", {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
counts = {{"hits": 0, "misses": 0}}
def count(event, **_):
    for kind in counts:
        counts[kind] += event == "/jax/compilation_cache/cache_" + kind
monitoring.register_event_listener(count)
import graphsafe_gg as gg

rng = np.random.default_rng(0)
lhs = rng.standard_normal((12, 8), np.float32)
rhs = rng.standard_normal((3, 8, 8), np.float32)
stack = np.stack([rhs, rhs])
bias = rng.standard_normal((3, 8), np.float32)
sizes = np.array([4, 0, 5], np.int32)

def call(lhs, rhs, sizes, **options):
    return gg.grouped_gemm(lhs, rhs, sizes, **options)

def loss(lhs, rhs, sizes, **options):
    return jnp.sum(call(lhs, rhs, sizes, **options) ** 2)

def copied(lhs, rhs, sizes):
    lhs, sizes = gg.copy_group_sizes(sizes, before=lhs)
    return gg.grouped_gemm(lhs, rhs, sizes, mode="async", name="copied")

def scanned(lhs, stack, sizes):
    def body(x, layer):
        return jnp.tanh(call(x, stack, sizes, layer=layer, name="layers")), None
    return jax.lax.scan(body, lhs, jnp.arange(2))[0]

programs = {{mode: (lambda *a, mode=mode: call(*a, mode=mode, name=mode))
            for mode in ("auto", "device", "sync", "async")}}
programs |= {{
    "unnamed": call,
    "gradient": jax.grad(loss, (0, 1)),
    "copied": copied,
    "offset": lambda *a: call(*a, group_offset=0, bias=bias),
    "mapped": lambda *a: jax.vmap(call, (None, None, 0))(*a[:2], np.stack([sizes] * 2)),
}}
for name, program in programs.items():
    jax.block_until_ready(jax.jit(program)(lhs, rhs, sizes))
jax.block_until_ready(jax.jit(scanned)(lhs, stack, sizes))
jax.block_until_ready(gg.grouped_gemm(lhs, rhs, sizes))  # eagerly
"""

REPORT = """
for mode in ("sync", "unnamed"):
    try:
        jax.block_until_ready(jax.jit(programs[mode])(lhs, rhs, sizes - 9))
        gg.check()  # mode device records
        raise SystemExit("bad sizes passed")
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        counts[mode] = str(error)
counts["sites"] = sorted(
    site for device in gg.stats()["devices"].values() for site in device["sites"]
)
print(json.dumps(counts))
"""


@pytest.mark.slow
def test_compilation_cache_is_hit_by_a_second_process(device, tmp_path):
    code = (PROGRAM + REPORT).format(folder=str(tmp_path))
    runs = [json.loads(output_of(code, device=device)) for _ in range(2)]
    first, second = runs
    assert first["misses"] > 10
    assert second["misses"] == 0
    assert second["hits"] == first["misses"] + first["hits"]
    for run in runs:
        assert "(call site sync)" in run["sync"]
        assert "(call site grouped_gemm[3x8x8 float32])" in run["unnamed"]
    assert first["sites"] == second["sites"]
    assert not [site for site in second["sites"] if site.startswith("#")]
