# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The limit: how fast this card, in this run, reads memory and does nothing else."""

import dataclasses

from device_types import ReadConfig
from timing import NUM_CALLS, GraphContestant, time_graphs

READ_BYTES = 1 << 30

_CONFIGS = tuple(
    ReadConfig(unroll, blocks_per_sm, threads)
    for unroll, blocks_per_sm, threads in (
        (4, 4, 512),
        (8, 4, 256),
        (8, 2, 512),
        (4, 8, 256),
        (16, 2, 256),
    )
)


@dataclasses.dataclass(frozen=True)
class ReadLimit:
    tb_s: float
    config: ReadConfig


def measure(device, address: int, size_bytes: int = READ_BYTES) -> ReadLimit:
    """The best of a few layouts of the plain read, timed like everything else."""
    contestants = [
        read_contestant(device, config, [address], size_bytes, name=str(config))
        for config in _CONFIGS
    ]
    timings = time_graphs(device, contestants)
    for contestant in contestants:
        contestant.release()
    best = min(_CONFIGS, key=lambda config: timings[str(config)].ms)
    return ReadLimit(size_bytes / timings[str(best)].ms * 1e-9, best)


def read_contestant(
    device,
    config: ReadConfig,
    addresses: list[int],
    size_bytes: int,
    *,
    name: str = "stream_read",
    num_calls: int = NUM_CALLS,
) -> GraphContestant:
    """A plain read of as many bytes, from one place or from several in turn."""
    places = len(addresses)
    return GraphContestant(
        device,
        name,
        lambda i: device.read(config, addresses[i % places], size_bytes),
        num_calls,
    )
