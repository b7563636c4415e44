# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The one timer: what competes is run in turns, under steady load, and the median of
seven turns counts. design/measurement.md says why."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol

NUM_CALLS = 10
NUM_TURNS = 7
WARM_UP_S = 0.5
_HOST_TURN_S = 0.01


@dataclasses.dataclass(frozen=True)
class Timing:
    """Of one call. `spread_ms` is the slowest turn less the fastest."""

    ms: float
    spread_ms: float
    turns_ms: tuple[float, ...]

    @classmethod
    def of(cls, turns_ms: Sequence[float]) -> "Timing":
        turns = tuple(turns_ms)
        return cls(statistics.median(turns), max(turns) - min(turns), turns)


class Contestant(Protocol):
    """A turn puts `num_calls` calls on the device."""

    name: str
    num_calls: int

    def run(self) -> None: ...


class GraphContestant:
    """Calls in one CUDA graph: `issue(i)` puts call i on the device's stream."""

    def __init__(
        self,
        device,
        name: str,
        issue: Callable[[int], None],
        num_calls: int = NUM_CALLS,
    ):
        self.name = name
        self.num_calls = num_calls
        self._device = device

        def issue_all() -> None:
            for i in range(num_calls):
                issue(i)

        self._graph = device.capture(issue_all)

    def run(self) -> None:
        self._device.replay(self._graph)

    def release(self) -> None:
        self._device.release(self._graph)


def time_graphs(
    device,
    contestants: Sequence[Contestant],
    *,
    warm_up_s: float = WARM_UP_S,
    before_turns: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Times contestants in turns on the device's stream, with events.

    The host queues every turn before it waits for the first, so that the device never
    idles between two of them. `before_turns` runs between warm-up and turns.
    """
    _warm_up(contestants, warm_up_s, device.synchronize)
    before_turns()
    marks: dict[str, list] = {contestant.name: [] for contestant in contestants}
    for _ in range(NUM_TURNS):
        for contestant in contestants:
            start = device.record()
            contestant.run()
            marks[contestant.name].append((start, device.record()))
    return {
        contestant.name: Timing.of(
            [
                device.elapsed_ms(start, stop) / contestant.num_calls
                for start, stop in marks[contestant.name]
            ]
        )
        for contestant in contestants
    }


class HostContestant(Contestant, Protocol):
    """A contestant on streams of its own: the host waits for it."""

    def wait(self) -> None: ...


def time_on_host(
    contestants: Sequence[HostContestant],
    *,
    warm_up_s: float = WARM_UP_S,
    before_turns: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Times contestants in turns with the host's clock.

    A turn is as many runs as fill ten milliseconds, queued back to back, and a wait.
    """

    def wait_for_all() -> None:
        for contestant in contestants:
            contestant.wait()

    _warm_up(contestants, warm_up_s, wait_for_all)
    num_runs = {
        contestant.name: max(1, round(_HOST_TURN_S / _timed_turn(contestant, 2)))
        for contestant in contestants
    }
    before_turns()
    turns: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for _ in range(NUM_TURNS):
        for contestant in contestants:
            elapsed = _timed_turn(contestant, num_runs[contestant.name])
            turns[contestant.name].append(elapsed * 1e3 / contestant.num_calls)
    return {name: Timing.of(times) for name, times in turns.items()}


def _timed_turn(contestant: HostContestant, num_runs: int) -> float:
    """Seconds of one run, of num_runs in a row."""
    start = time.perf_counter()
    for _ in range(num_runs):
        contestant.run()
    contestant.wait()
    return max(time.perf_counter() - start, 1e-7) / num_runs


def _warm_up(
    contestants: Sequence[Contestant], seconds: float, wait: Callable[[], None]
) -> None:
    """Steady load of the very work that is timed, until its clocks have settled."""
    end = time.perf_counter() + seconds
    while True:
        for contestant in contestants:
            contestant.run()
        wait()
        if time.perf_counter() >= end:
            return
