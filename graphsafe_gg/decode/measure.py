# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Times steps, reads the counters of host waits around them, and a streaming read."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from graphsafe_gg import _runtime
from graphsafe_gg.decode.device import Device
from graphsafe_gg.decode.stack import LayerWeights, StepInputs, StepState

# XLA runs a program's first execution eagerly and captures in the second.
_MIN_WARM_UP_ROUNDS = 3
_WARM_UP_SECONDS = 0.5

# Bytes and queued calls of the streaming read, per platform.
_READ_SIZES = {"cpu": (2**29, 2), "gpu": (2**30, 20)}
_READ_REPEATS = 7
_READ_WIDTH = 4096


@dataclasses.dataclass
class ModeRun:
    """One mode: its compiled step, its state, and what was measured so far.

    Attributes:
      step: (state, inputs, layers) -> state.
      state: donated to `step` and replaced by what it returns.
      num_executed: executions so far, warm-up included.
      step_ms: wall time of each timed step, from the call to its finished result.
      num_host_waits: waits for group sizes in the timed steps; None if uncounted.
      host_wait_us: time spent in them.
    """

    step: Callable
    state: StepState
    num_executed: int = 0
    step_ms: list[float] = dataclasses.field(default_factory=list)
    num_host_waits: int | None = 0
    host_wait_us: float | None = 0.0

    @property
    def median_ms(self) -> float:
        return statistics.median(self.step_ms)


@dataclasses.dataclass(frozen=True)
class StreamingRead:
    """The fastest plain read of a large array; `how` says by which JAX program."""

    gb_s: float
    num_bytes: int
    how: str


def run_steps(
    runs: list[ModeRun],
    inputs: StepInputs,
    layers: list[LayerWeights],
    num_steps: int,
    device: Device,
    on_step: Callable[[], None] = lambda: None,
) -> None:
    """Warms up, then times `num_steps` steps of every mode, the modes in turn."""
    start, rounds = time.perf_counter(), 0
    while rounds < _MIN_WARM_UP_ROUNDS or (
        time.perf_counter() - start < _WARM_UP_SECONDS
    ):
        for run in runs:
            _execute(run, inputs, layers)
        rounds += 1
    for _ in range(num_steps):
        for run in runs:
            before = host_waits(device)
            run.step_ms.append(_execute(run, inputs, layers))
            _add_waits(run, before, host_waits(device))
        on_step()


def host_waits(device: Device) -> tuple[int, float] | None:
    """Waits for group sizes on this device so far: (number, us); None if uncounted."""
    if device.platform == "cpu":
        return None
    counters = _runtime.stats()["devices"].get(device.local_hardware_id)
    if counters is None:
        return None
    return counters["host_waits"], counters["host_wait_us"]


def streaming_read(device: Device) -> StreamingRead:
    """Reads an array larger than any cache by two JAX programs; keeps the faster."""
    platform = "cpu" if device.platform == "cpu" else "gpu"
    num_bytes, num_calls = _READ_SIZES[platform]
    shape = (num_bytes // 4 // _READ_WIDTH, _READ_WIDTH)
    matrix, vector = jnp.ones(shape, jnp.float32), jnp.ones(shape[1:], jnp.float32)
    seconds = {
        "sum of a float32 array": _seconds(num_calls, jnp.sum, matrix),
        "float32 matrix times vector": _seconds(num_calls, jnp.dot, matrix, vector),
    }
    how = min(seconds, key=lambda key: seconds[key])
    return StreamingRead(num_bytes / seconds[how] / 1e9, num_bytes, how)


def _seconds(num_calls: int, function: Callable, *operands: jax.Array) -> float:
    """Median time of a call; calls are queued so that no launch latency shows."""
    program = jax.jit(function)
    jax.block_until_ready(program(*operands))
    seconds = []
    for _ in range(_READ_REPEATS):
        start = time.perf_counter()
        jax.block_until_ready([program(*operands) for _ in range(num_calls)])
        seconds.append((time.perf_counter() - start) / num_calls)
    return statistics.median(seconds)


def _execute(run: ModeRun, inputs: StepInputs, layers: list[LayerWeights]) -> float:
    start = time.perf_counter()
    run.state = jax.block_until_ready(run.step(run.state, inputs, layers))
    elapsed_ms = (time.perf_counter() - start) * 1e3
    run.num_executed += 1
    return elapsed_ms


def _add_waits(
    run: ModeRun, before: tuple[int, float] | None, after: tuple[int, float] | None
) -> None:
    if after is None or run.num_host_waits is None or run.host_wait_us is None:
        run.num_host_waits = run.host_wait_us = None
        return
    count, wait_us = before or (0, 0.0)
    run.num_host_waits += after[0] - count
    run.host_wait_us += after[1] - wait_us
