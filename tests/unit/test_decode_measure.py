# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Timing of steps, counters of host waits, the streaming read."""

import types

import jax
import numpy as np
from support.decode_run import tiny_config

from graphsafe_gg import _runtime
from graphsafe_gg.decode import measure
from graphsafe_gg.decode.measure import ModeRun, host_waits, run_steps, streaming_read
from graphsafe_gg.decode.stack import initial_state

GPU = types.SimpleNamespace(platform="gpu", local_hardware_id=1)


def counting_run(calls, name):
    def step(state, inputs, layers):
        calls.append(name)
        return state

    return ModeRun(step, initial_state(tiny_config()))


def test_run_steps_takes_the_modes_in_turn(monkeypatch):
    monkeypatch.setattr(measure, "_WARM_UP_SECONDS", 0.0)
    calls, advanced = [], []
    runs = [counting_run(calls, "sync"), counting_run(calls, "device")]
    run_steps(runs, None, [], 4, jax.devices("cpu")[0], lambda: advanced.append(1))
    assert calls == ["sync", "device"] * 7
    assert [run.num_executed for run in runs] == [7, 7]
    assert [len(run.step_ms) for run in runs] == [4, 4]
    assert len(advanced) == 4


def test_run_steps_counts_waits_of_each_mode(monkeypatch):
    monkeypatch.setattr(measure, "_WARM_UP_SECONDS", 0.0)
    counters = {"host_waits": 5, "host_wait_us": 50.0}
    monkeypatch.setattr(_runtime, "stats", lambda: {"devices": {1: dict(counters)}})

    def waiting_step(state, inputs, layers):
        counters["host_waits"] += 2
        counters["host_wait_us"] += 7.0
        return state

    waiting = ModeRun(waiting_step, initial_state(tiny_config()))
    free = counting_run([], "device")
    run_steps([waiting, free], None, [], 3, GPU)
    assert (waiting.num_host_waits, waiting.host_wait_us) == (6, 21.0)
    assert (free.num_host_waits, free.host_wait_us) == (0, 0.0)


def test_run_steps_has_no_waits_where_nothing_counts(monkeypatch):
    monkeypatch.setattr(measure, "_WARM_UP_SECONDS", 0.0)
    run = counting_run([], "auto")
    run_steps([run], None, [], 2, jax.devices("cpu")[0])
    assert run.num_host_waits is None
    assert run.host_wait_us is None


def test_host_waits_before_the_first_execution(monkeypatch):
    monkeypatch.setattr(_runtime, "stats", lambda: {"devices": {}})
    assert host_waits(GPU) is None


def test_mode_run_median():
    run = counting_run([], "auto")
    run.step_ms = [9.0, 1.0, 2.0]
    assert run.median_ms == 2.0


def test_streaming_read_is_a_positive_rate(monkeypatch):
    monkeypatch.setattr(measure, "_READ_SIZES", {"cpu": (2**20, 1)})
    read = streaming_read(jax.devices("cpu")[0])
    assert np.isfinite(read.gb_s)
    assert read.gb_s > 0
    assert read.num_bytes == 2**20
    assert "float32" in read.how
