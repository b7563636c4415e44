# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K24: several Python threads on one device."""

import threading
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.operands import MODES, random_operands
from support.platforms import is_cuda
from support.products import assert_products_close, run_products, truth_of

import graphsafe_gg as gg

ROWS, WIDTH = 64, 16


def run_threads(works) -> None:
    """Runs every function in its own thread, from a common start."""
    failures, start = [], threading.Barrier(len(works))

    def guarded(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]


class Checked(NamedTuple):
    """The result of a call beside what it should be; only the first column is kept."""

    wrong: jax.Array  # number of elements
    wrong_rows: jax.Array
    got: jax.Array
    want: jax.Array
    sizes: jax.Array

    def check(self, x, sizes):
        """Against itself, and its sizes against those that the host sent."""
        assert int(self.wrong) == 0, self.explained(x, sizes)
        np.testing.assert_array_equal(self.sizes, sizes)

    def explained(self, x, sizes):
        groups = [np.rint(side / np.sin(x[:, 0])) - 1 for side in (self.got, self.want)]
        return (
            f"rows {np.flatnonzero(self.wrong_rows)} differ\n"
            f"got {self.got}\nof groups {groups[0]}\n"
            f"want {self.want}\nof groups {groups[1]}\n"
            f"sizes sent {sizes}, read {self.sizes}"
        )


def checked(groups, mode, name):
    """jitted (x, sizes) -> Checked."""
    scales = jnp.arange(1, groups + 1, dtype=jnp.float32)
    rhs = jnp.einsum("g,kn->gkn", scales, jnp.eye(WIDTH, dtype=jnp.float32))

    @jax.jit
    def program(x, sizes):
        held, copied = gg.copy_group_sizes(sizes, before=x)
        out = gg.grouped_gemm(jnp.sin(held), rhs, copied, mode=mode, name=name)
        # No jnp.searchsorted: its loop is one more thing that threads share.
        ends = jnp.cumsum(sizes)
        group = jnp.sum(jnp.arange(ROWS)[:, None] >= ends[None, :], axis=1)
        want = jnp.sin(x) * scales[group][:, None]
        is_wrong = out != want
        wrong_rows = jnp.any(is_wrong, axis=1)
        return Checked(jnp.sum(is_wrong), wrong_rows, out[:, 0], want[:, 0], sizes)

    return program


def steps_of(program, groups, seed, num_steps, device):
    """A thread's work; threads do not inherit the default device."""

    def work():
        rng = np.random.default_rng(seed)
        held = []
        with jax.default_device(device):
            for _ in range(num_steps):
                sizes = rng.multinomial(ROWS, rng.dirichlet(np.ones(groups)))
                x = rng.standard_normal((ROWS, WIDTH), np.float32)
                args = (jnp.asarray(x), jnp.asarray(sizes.astype(np.int32)))
                held.append((program(*args), x, sizes))
                if len(held) > 8:
                    result, *sent = held.pop(0)
                    result.check(*sent)
            for result, *sent in held:
                result.check(*sent)

    return work


def test_p073_cold_start_of_every_mode(device):
    """P-073: first use at once, from threads with different shapes and modes."""
    works = []
    for index in range(8):
        operands = random_operands([5, index, 17, 9], 48, 8 + index, 16 + index)
        truth = truth_of(operands)

        mode = MODES[index % len(MODES)]

        def work(operands=operands, truth=truth, mode=mode):
            with jax.default_device(device):
                for _ in range(30 if is_cuda(device) else 3):
                    products = run_products(*operands, mode=mode)
                    assert_products_close(products, truth)

        works.append(work)
    run_threads(works)


@pytest.mark.parametrize("mode", ["async", "sync", "device"])
def test_p073_threads_share_one_program(device, mode):
    """P-073: eight threads run one jitted function, each with its own sizes."""
    program = checked(8, mode, f"p073.{mode}")
    num_steps = 300 if is_cuda(device) else 20
    run_threads([steps_of(program, 8, seed, num_steps, device) for seed in range(8)])
    gg.check()


def test_p074_capture_beside_waits(device):
    """P-074: one thread compiles and captures new shapes, one waits for sizes."""
    num_shapes = 25 if is_cuda(device) else 3

    def captures():
        with jax.default_device(device):
            for groups in range(2, 2 + num_shapes):
                program = checked(groups, "device", f"p074.{groups}")
                steps_of(program, groups, groups, 4, device)()

    waits = checked(8, "async", "p074.async")
    run_threads([captures, steps_of(waits, 8, 0, 40 * num_shapes, device)])


def test_p075_transfers_beside_capture(device):
    """P-075: transfers to and from the host while first calls capture."""
    stop = threading.Event()

    def transfers():
        while not stop.is_set():
            array = jax.device_put(np.arange(4096, dtype=np.float32), device)
            assert np.asarray(array)[-1] == 4095

    def captures():
        try:
            for groups in range(30, 45 if is_cuda(device) else 32):
                program = checked(groups, "device", f"p075.{groups}")
                steps_of(program, groups, groups, 4, device)()
        finally:
            stop.set()

    run_threads([transfers, captures])
