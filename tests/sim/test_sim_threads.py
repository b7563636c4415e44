# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""K22 to K24: threads, programs and devices at once, time running on its own."""

import collections
import threading
import time

import ml_dtypes
import numpy as np
import pytest
from simulated import Gemm, Operands, copy_call, expected_gemm, gemm_call, route

from graphsafe_gg import _testing

M, K, N, G = 400, 1, 2, 3


class Routed:
    """A jitted function: two products, each on sizes that the device draws anew."""

    def __init__(self, sim, mode, sites, **options):
        rng = np.random.default_rng(0)
        self.sim, self.sites = sim, sites
        # Small whole numbers: every order of summation gives the same bits.
        self.lhs_value = rng.integers(-3, 4, (M, K)).astype(np.float32)
        self.rhs_value = rng.integers(-3, 4, (G, K, N)).astype(np.float32)
        p = _testing.Program()
        self.lhs, self.rhs = p.param("bfloat16", [M, K]), p.param("bfloat16", [G, K, N])
        self.state = p.param("uint64", [1])
        self.outs = [p.result("float32", [M, N]) for _ in sites]
        for site, out in zip(sites, self.outs, strict=True):
            sizes = p.temp("int32", [G])
            p.kernel("gg_test_route", [self.state, sizes], [G, M])
            inputs = [self.lhs, self.rhs, sizes]
            if mode == "async":
                inputs.append(copy_call(p, sizes, G))
            p.kernel("gg_test_delay", [], [4])
            gemm_call(p, mode, inputs, out, site=site)
        self.executable = _testing.compile(sim.raw, p, **options)

    def caller(self, seed, on=0):
        return Caller(self, seed, on)


class Caller:
    """One thread's use of a function: its own routing state, results held back."""

    def __init__(self, routed, seed, on, num_held=20):
        self.routed, self.state, self.on, self.num_held = routed, seed, on, num_held
        sim = routed.sim
        self.params = {
            routed.lhs: sim.put(routed.lhs_value.astype(ml_dtypes.bfloat16), on),
            routed.rhs: sim.put(routed.rhs_value.astype(ml_dtypes.bfloat16), on),
            routed.state: sim.put(np.array([seed], np.uint64), on),
        }
        self.held = collections.deque()
        self.num_wrong = 0

    def step(self):
        results = self.routed.executable.run(self.on, self.params)
        for out in self.routed.outs:
            self.state, sizes = route(self.state, G, M)
            self.held.append((results[out], sizes))
        while len(self.held) > self.num_held:
            self.compare()

    def compare(self):
        buffer, sizes = self.held.popleft()
        got = np.frombuffer(buffer.read(), np.float32).reshape(M, N)
        want = expected_gemm(self.routed.lhs_value, self.routed.rhs_value, sizes)
        self.num_wrong += not np.array_equal(got, want)

    def finish(self):
        while self.held:
            self.compare()
        return self.num_wrong


def run_threads(bodies, timeout_s=240):
    failures = []

    def run(body):
        try:
            body()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
        assert not thread.is_alive(), "a thread is stuck"
    if failures:
        raise failures[0]


def stress(sim, mode, *, num_threads, num_steps, num_devices, num_functions=4):
    """Each thread calls each function in turn. Returns the callers."""
    functions = [
        Routed(sim, mode, sites=(2 * i, 2 * i + 1)) for i in range(num_functions)
    ]
    callers = [
        [
            function.caller(seed=100 * thread + index, on=thread % num_devices)
            for index, function in enumerate(functions)
        ]
        for thread in range(num_threads)
    ]

    def body(mine):
        for step in range(num_steps):
            mine[step % len(mine)].step()

    run_threads([lambda mine=mine: body(mine) for mine in callers])
    return [caller for mine in callers for caller in mine]


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("mode", ["device", "sync", "async"])
def test_threads_get_their_own_sizes(simulate, mode, num_devices):
    sim = simulate(num_devices=num_devices, background=True, jitter=2, seed=7)
    sim.set_log(False)
    callers = stress(sim, mode, num_threads=8, num_steps=200, num_devices=num_devices)
    assert sum(caller.finish() for caller in callers) == 0


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_threads_launch_from_their_own_sizes(simulate, mode, num_devices):
    """What the host read chose the kernel: it must be the one of the device's sizes."""
    sim = simulate(num_devices=num_devices, background=True, jitter=2, seed=8)
    sim.set_log(False)
    callers = stress(sim, mode, num_threads=8, num_steps=200, num_devices=num_devices)
    for caller in callers:
        caller.finish()
    others = [
        sim.device_word(on, "gg_test_other_launches") for on in range(num_devices)
    ]
    assert others == [0] * num_devices


def test_threads_device_mode_knows_no_sizes(simulate):
    """The measure of the test above is alive: device mode launches blindly."""
    sim = simulate(background=True)
    sim.set_log(False)
    for caller in stress(sim, "device", num_threads=1, num_steps=40, num_devices=1):
        caller.finish()
    assert sim.device_word(0, "gg_test_other_launches") > 0


def test_threads_leave_pinned_memory_flat(simulate):
    sim = simulate(background=True, seed=3)
    sim.set_log(False)
    stress(sim, "async", num_threads=8, num_steps=200, num_devices=1)
    before = sim.live_counts()
    for _ in range(2):
        stress(sim, "async", num_threads=8, num_steps=200, num_devices=1)
    after = sim.live_counts()
    assert after["pinned_bytes"] == before["pinned_bytes"] <= 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("num_devices", [1, 2])
def test_threads_many_copies(simulate, num_devices):
    """100,000 copies, none wrong."""
    sim = simulate(num_devices=num_devices, background=True, jitter=2, seed=11)
    sim.set_log(False)
    callers = stress(
        sim, "async", num_threads=8, num_steps=6_400, num_devices=num_devices
    )
    assert sum(caller.finish() for caller in callers) == 0
    copies = [_testing.device_stats(on)["copies"] for on in range(num_devices)]
    assert sum(copies) >= 100_000
    others = [
        sim.device_word(on, "gg_test_other_launches") for on in range(num_devices)
    ]
    assert others == [0] * num_devices


@pytest.mark.parametrize("mode", ["device", "sync", "async"])
def test_threads_cold_start_makes_state_once(simulate, mode):
    """P-073: the first calls of 8 threads meet."""
    sim = simulate(background=True)
    gemms = [Gemm(sim, mode, site=i, operands=Operands(sim, seed=i)) for i in range(8)]
    run_threads([lambda gemm=gemm: gemm.warm_up() for gemm in gemms])
    # One state: its records, and in sync and async mode one slab or page a use.
    assert sim.num_calls("cuDevicePrimaryCtxRetain") == 2  # the executor's and ours
    assert sim.num_calls("cuLibraryLoadData") <= 2


def test_threads_that_meet_in_a_cold_start_make_one_state(sim):
    """The second comes while the first makes it, and waits."""
    gemms = [Gemm(sim, site=i, operands=Operands(sim, seed=i)) for i in range(2)]
    before = sim.num_calls("cuDevicePrimaryCtxRetain")
    sim.pause("cuDevicePrimaryCtxRetain", "initialize")
    threads = [threading.Thread(target=gemm.check, args=([1, 2, 3],)) for gemm in gemms]
    threads[0].start()
    assert sim.wait_until_paused()
    threads[1].start()
    time.sleep(0.1)
    sim.resume()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert sim.num_calls("cuDevicePrimaryCtxRetain") == before + 1
    assert _testing.device_stats(0)["sites"] == [0, 1]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_threads_first_use_of_every_group_count(simulate, mode):
    """P-073, allocation in initialize while other threads capture and wait."""
    sim = simulate(background=True, jitter=1)
    # The last ones' sizes need larger buffers, which the others may hold.
    counts = [*range(1, 13), *range(2000, 2004)]
    operands = [Operands(sim, m=12, g=g, seed=g) for g in counts]
    gemms = [Gemm(sim, mode, site=o.g, operands=o) for o in operands]

    def body(mine):
        for _ in range(4):
            for gemm in mine:
                sizes = [0] * gemm.operands.g
                sizes[-1] = 12
                gemm.check(sizes)

    run_threads([lambda i=i: body(gemms[i::4]) for i in range(4)])


def test_threads_capture_while_others_wait(simulate):
    """P-074: one thread captures new programs, another waits for sizes."""
    sim = simulate(background=True, jitter=1)
    waiting = Gemm(sim, "async", site=1)
    operands = Operands(sim, seed=5)

    def capture():
        for turn in range(30):
            Gemm(sim, "device", site=100 + turn, operands=operands).warm_up()

    def wait():
        for _ in range(100):
            waiting.check([1, 2, 3])

    run_threads([capture, wait])


def test_threads_eviction_while_others_run(simulate):
    sim = simulate(background=True, jitter=1)
    gemms = [
        Gemm(sim, "async", site=i, operands=Operands(sim, seed=i)) for i in range(3)
    ]
    done = threading.Event()

    def evict():
        while not done.is_set():
            sim.evict_all()

    def body(gemm):
        for _ in range(60):
            gemm.check([3, 2, 1])

    evictor = threading.Thread(target=evict)
    evictor.start()
    try:
        run_threads([lambda gemm=gemm: body(gemm) for gemm in gemms])
    finally:
        done.set()
        evictor.join()
