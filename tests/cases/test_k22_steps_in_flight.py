# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K22: copies, calls and buffers of several steps in flight at once."""

import gc
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.delay import busy
from support.operands import random_operands
from support.platforms import is_cuda
from support.products import check_products

import graphsafe_gg as gg

ROWS, WIDTH, GROUPS = 64, 16, 8
# Group i's matrix is (i + 1) times the identity: the result names the sizes it used.
RHS = (
    np.eye(WIDTH, dtype=np.float32)
    * np.arange(1, GROUPS + 1, dtype=np.float32)[:, None, None]
)


def random_sizes(rng) -> np.ndarray:
    return rng.multinomial(ROWS, rng.dirichlet(np.ones(GROUPS))).astype(np.int32)


def scale_of(sizes) -> np.ndarray:
    return np.repeat(np.arange(1, GROUPS + 1), sizes).astype(np.float32)


def double(x, sizes):
    """Two products that share one copy."""
    x, copied = gg.copy_group_sizes(sizes, before=x)
    x = gg.grouped_gemm(x, RHS, copied, mode="async", name="k22.first")
    return gg.grouped_gemm(x, RHS, copied, mode="async", name="k22.second")


def test_p065_four_copies_in_flight(device):
    """P-065: each of 200 pairs of products uses its own sizes."""
    rng = np.random.default_rng(0)
    step = jax.jit(double)
    x = jnp.ones((ROWS, WIDTH))
    in_flight = []
    for _ in range(200 if is_cuda(device) else 40):
        sizes = random_sizes(rng)
        in_flight.append((sizes, step(x, jnp.asarray(sizes))))
        if len(in_flight) > 4:
            sizes, out = in_flight.pop(int(rng.integers(4)))
            assert (np.asarray(out)[:, 0] == scale_of(sizes) ** 2).all()
    for sizes, out in in_flight:
        assert (np.asarray(out)[:, 0] == scale_of(sizes) ** 2).all()


def test_p065_copies_interleaved_in_one_program(device):
    """P-065: the second copy is issued before the first product has run."""

    @jax.jit
    def program(x, first, second):
        x, a = gg.copy_group_sizes(first, before=x)
        x, b = gg.copy_group_sizes(second, before=x)
        y = gg.grouped_gemm(x, RHS, a, mode="async", name="p065.a")
        return gg.grouped_gemm(y, RHS, b, mode="async", name="p065.b")

    rng = np.random.default_rng(1)
    for _ in range(20):
        first, second = random_sizes(rng), random_sizes(rng)
        out = program(jnp.ones((ROWS, WIDTH)), first, second)
        assert (np.asarray(out)[:, 0] == scale_of(first) * scale_of(second)).all()


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_p066_host_reads_after_the_copy(device, mode):
    """P-066: behind work of the device, fresh sizes at every call."""
    rng = np.random.default_rng(2)
    step = jax.jit(lambda x, s: gg.grouped_gemm(x, RHS, s, mode=mode, name="p066"))
    x = jnp.ones((ROWS, WIDTH))
    for _ in range(20 if is_cuda(device) else 5):
        sizes = random_sizes(rng)
        work = busy(device)
        out = step(x, jnp.asarray(sizes))
        assert (np.asarray(out)[:, 0] == scale_of(sizes)).all()
        del work


@pytest.mark.parametrize("mode", ["device", "async"])
@pytest.mark.parametrize("large", [31, 0])
def test_p067_one_large_group_among_small_ones(device, mode, large):
    """P-067: 31 groups of one row and one of thousands, at either end."""
    sizes = np.ones(32, np.int32)
    sizes[large] = 8000 if is_cuda(device) else 300
    check_products(random_operands(sizes, k=32, n=48, dtype=jnp.bfloat16), mode=mode)


def test_p068_alternating_sizes(device):
    """P-068: 128 groups of 1 and 257 rows in turn, long contractions."""
    k = 8192 if is_cuda(device) else 256
    repeats = 50 if is_cuda(device) else 1
    sizes = np.where(np.arange(128) % 2, 257, 1).astype(np.int32)
    lhs = np.ones((int(sizes.sum()), k), np.float32).astype(jnp.bfloat16)
    rhs = np.full((128, k, 8), 2.0**-13, np.float32).astype(jnp.bfloat16)
    call = jax.jit(lambda *a: gg.grouped_gemm(*a, mode="device", name="p068"))
    on_device = jax.device_put((lhs, rhs, sizes))
    for _ in range(repeats):
        assert (np.asarray(call(*on_device), np.float32) == k * 2.0**-13).all()


def test_p070_ticket_outlives_its_program(device):
    """P-070: sizes made in one program, returned, and used in another later."""
    make = jax.jit(lambda s: gg.copy_group_sizes(s))
    use = jax.jit(lambda x, s: gg.grouped_gemm(x, RHS, s, mode="async", name="p070"))
    rng = np.random.default_rng(3)
    kept = []
    for _ in range(20):
        sizes = random_sizes(rng)
        kept.append((sizes, make(jnp.asarray(sizes))))
    gc.collect()
    for sizes, copied in reversed(kept):
        out = use(jnp.ones((ROWS, WIDTH)), copied)
        assert (np.asarray(out)[:, 0] == scale_of(sizes)).all()


def test_p070_copy_made_and_dropped_inside(device):
    """P-070: a program that returns the result alone, a hundred times."""
    step = jax.jit(double)
    rng = np.random.default_rng(4)
    for _ in range(100 if is_cuda(device) else 20):
        sizes = random_sizes(rng)
        out = step(jnp.ones((ROWS, WIDTH)), jnp.asarray(sizes))
        gc.collect(0)
        assert (np.asarray(out)[:, 0] == scale_of(sizes) ** 2).all()


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["device", "async"])
def test_p069_on_another_stream(device, mode):
    """P-069: on the stream that the annotation names, with work on both sides."""
    from jax.experimental.compute_on import compute_on

    def product(x, sizes):
        return gg.grouped_gemm(x, RHS, sizes, mode=mode, name="p069")

    stream = {"compute_type": "gpu_stream:1"}
    if "out_memory_spaces" in inspect.signature(compute_on).parameters:
        stream["out_memory_spaces"] = jax.memory.Space.Device
        on_stream = compute_on(product, **stream)
    else:

        def on_stream(x, sizes):
            with compute_on(stream["compute_type"]):
                return jax.jit(product)(x, sizes)

    @jax.jit
    def program(x, sizes):
        x = jnp.tanh(x) + 1.0
        return on_stream(x, sizes) * 1.0 + x * 0.0

    if not is_cuda(device):
        return
    rng = np.random.default_rng(5)
    for _ in range(10):
        sizes = random_sizes(rng)
        work = busy(device)
        out = program(jnp.zeros((ROWS, WIDTH)), jnp.asarray(sizes))
        assert (np.asarray(out)[:, 0] == scale_of(sizes)).all()
        del work
