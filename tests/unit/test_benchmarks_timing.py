# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The timer's statistics and turns, on a device whose clock the test sets."""

import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import gpu_facts
import stream_read
import timing


class ClockDevice:
    """Time passes by what contestants add to it, in milliseconds."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def synchronize(self):
        self.log.append("wait")

    def record(self):
        return self.now

    def elapsed_ms(self, start, stop):
        self.log.append("read")
        return stop - start

    def capture(self, issue):
        calls = []
        self.issued = calls.append
        issue()
        return calls

    def replay(self, graph):
        self.now += sum(graph)

    def release(self, graph):
        graph.clear()

    def read(self, config, address, size_bytes):
        self.issued(config.threads / 1000 + address)


class Scripted:
    """A turn takes the next of the given milliseconds, and the last for ever."""

    def __init__(self, device, name, turns_ms, num_calls=1):
        self.device, self.name, self.num_calls = device, name, num_calls
        self.turns_ms = list(turns_ms)

    def run(self):
        self.device.log.append(self.name)
        taken = self.turns_ms.pop(0) if len(self.turns_ms) > 1 else self.turns_ms[0]
        self.device.now += taken


def test_median_and_spread():
    timed = timing.Timing.of([3.0, 1.0, 2.0, 9.0, 2.5])
    assert timed.ms == 2.5
    assert timed.spread_ms == 8.0


def test_turns_alternate_and_the_host_waits_last():
    device = ClockDevice()
    a = Scripted(device, "a", [100.0, *range(10, 80, 10)], num_calls=10)
    b = Scripted(device, "b", [5.0])
    marks = []
    timed = timing.time_graphs(
        device, [a, b], warm_up_s=0, before_turns=lambda: marks.append(len(device.log))
    )
    assert timed["a"].ms == pytest.approx(4.0)  # of 1 to 7, the warm-up left out
    assert timed["a"].spread_ms == pytest.approx(6.0)
    assert timed["b"].ms == pytest.approx(5.0)
    assert marks == [3]
    assert device.log[:3] == ["a", "b", "wait"]
    assert device.log[3:17] == ["a", "b"] * timing.NUM_TURNS
    assert set(device.log[17:]) == {"read"}


def test_warm_up_lasts_as_long_as_asked():
    device = ClockDevice()
    start = time.perf_counter()
    timing.time_graphs(device, [Scripted(device, "a", [1.0])], warm_up_s=0.05)
    assert time.perf_counter() - start >= 0.05
    assert device.log.count("wait") > 1


def test_graph_holds_every_call_once():
    device = ClockDevice()
    issued = []
    contestant = timing.GraphContestant(device, "x", issued.append, num_calls=12)
    assert issued == list(range(12))
    assert contestant.num_calls == 12


def test_read_goes_round_its_places():
    device = ClockDevice()
    config = stream_read.ReadConfig(4, 4, 0)
    contestant = stream_read.read_contestant(device, config, [1, 2, 3], 64, num_calls=7)
    contestant.run()
    assert device.now == 1 + 2 + 3 + 1 + 2 + 3 + 1


def test_limit_is_the_best_layout():
    limit = stream_read.measure(ClockDevice(), address=0, size_bytes=256 * 10**6)
    assert limit.config.threads == 256
    assert limit.tb_s == pytest.approx(1.0)


class Sleeper:
    name = "sleeper"
    num_calls = 2

    def __init__(self):
        self.pending = 0
        self.runs_of_turns = []

    def run(self):
        self.pending += 1

    def wait(self):
        time.sleep(0.004 * self.pending)
        self.runs_of_turns.append(self.pending)
        self.pending = 0


def test_host_turns_fill_ten_milliseconds():
    sleeper = Sleeper()
    timed = timing.time_on_host([sleeper], warm_up_s=0)["sleeper"]
    assert sleeper.runs_of_turns[:2] == [1, 2]
    assert sleeper.runs_of_turns[2] in (1, 2, 3)
    assert len(sleeper.runs_of_turns) == 2 + timing.NUM_TURNS
    assert timed.ms >= 2.0


def test_sampler_takes_medians_of_the_window():
    values = iter([(100.0, 1.0), (300.0, 3.0), (200.0, 2.0)])
    sampler = gpu_facts.Sampler(lambda: next(values, None))
    sampler._thread.join(timeout=10)
    assert sampler.median_since(0.0) == {"sm_clock_mhz": 200, "power_w": 2.0}
    assert sampler.median_since(time.perf_counter()) == {}
    sampler.stop()


def test_sample_lines():
    assert gpu_facts.parse_sample("1980, 512.33") == (1980.0, 512.33)
    assert gpu_facts.parse_sample("[N/A], [N/A]") is None
    assert gpu_facts.parse_sample("") is None
