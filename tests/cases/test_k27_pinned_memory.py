# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K27: pinned buffers and events are bounded and come back."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.counters import device_count
from support.delay import busy
from support.platforms import is_cuda

import graphsafe_gg as gg

ROWS, WIDTH = 64, 16


def program_for(groups, name):
    scales = jnp.arange(1, groups + 1, dtype=jnp.float32)
    rhs = jnp.einsum("g,kn->gkn", scales, jnp.eye(WIDTH, dtype=jnp.float32))

    def call(x, sizes):
        x, copied = gg.copy_group_sizes(sizes, before=x)
        return gg.grouped_gemm(x * 1.0, rhs, copied, mode="async", name=name)

    return call


def first_column(groups, sizes):
    want = np.zeros(ROWS, np.float32)
    want[: sizes.sum()] = np.repeat(np.arange(1, groups + 1), sizes)
    return want


def test_p084_memory_is_flat_in_steady_state(device):
    """P-084: eager and jitted calls by the thousand."""
    call = program_for(16, "p084")
    jitted = jax.jit(call)
    sizes = jnp.full((16,), 4, jnp.int32)
    x = jnp.ones((ROWS, WIDTH))

    def run(count):
        for index in range(count):
            out = (call if index % 50 == 0 else jitted)(x, sizes)
        return jax.block_until_ready(out)

    run(200 if is_cuda(device) else 20)
    before = device_count("pinned_bytes")
    run(5000 if is_cuda(device) else 50)
    assert device_count("pinned_bytes") == before


def test_p084_memory_is_bounded_over_shapes(device):
    """P-084: the number of groups changes from call to call."""
    for groups in range(1, 65 if is_cuda(device) else 9):
        sizes = np.zeros(groups, np.int32)
        sizes[-1] = ROWS
        call = jax.jit(program_for(groups, "p084.shapes"))
        out = call(jnp.ones((ROWS, WIDTH)), sizes)
        assert (np.asarray(out)[:, 0] == first_column(groups, sizes)).all()
    for entry in gg.stats()["devices"].values():
        assert entry["pinned_bytes"] <= 2**20


def test_p085_references_dropped_in_flight(device):
    """P-085: the copy is behind other work when its last reference goes."""
    call = jax.jit(program_for(8, "p085"))
    rng = np.random.default_rng(0)
    for _ in range(10 if is_cuda(device) else 3):
        sizes = rng.multinomial(ROWS, np.ones(8) / 8).astype(np.int32)
        work = busy(device)
        dropped = gg.copy_group_sizes(jnp.asarray(sizes[::-1].copy()))
        del dropped
        gc.collect(0)
        out = call(jnp.ones((ROWS, WIDTH)), jnp.asarray(sizes))
        assert (np.asarray(out)[:, 0] == first_column(8, sizes)).all()
        del work


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_p086_errors_return_what_they_took(device, mode):
    """P-086: bad sizes, over and over, then a good call."""
    rhs = jnp.ones((2, WIDTH, WIDTH))
    call = jax.jit(
        lambda x, s: gg.grouped_gemm(x, rhs, s, mode=mode, name=f"p086.{mode}")
    )
    x, bad = jnp.ones((ROWS, WIDTH)), jnp.array([3, -1], jnp.int32)

    def fail(count):
        for _ in range(count):
            with pytest.raises(Exception, match=r"group_sizes\[1\] must be >= 0"):
                jax.block_until_ready(call(x, bad))

    fail(5)
    before = device_count("pinned_bytes")
    fail(500 if is_cuda(device) else 20)
    assert device_count("pinned_bytes") == before
    good = call(x, jnp.array([3, 4], jnp.int32))
    assert (np.asarray(good)[:7] == WIDTH).all()
