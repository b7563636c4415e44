# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The device of a run, and its free memory."""

from typing import Any

import jax

from graphsafe_gg.decode.errors import UsageError

# A jax.Device; jax's own name for it is a variable, which type checkers refuse.
Device = Any


def find_device(text: str | None) -> Device:
    """The device that --device names: cpu, gpu or gpu:N; JAX's first if None."""
    if text is None:
        return jax.local_devices()[0]
    platform, _, ordinal = text.partition(":")
    try:
        devices = {d.local_hardware_id: d for d in jax.local_devices(backend=platform)}
        return devices[int(ordinal or 0)]
    except (RuntimeError, ValueError, KeyError) as error:
        raise UsageError(
            f"--device must be cpu, gpu or gpu:N of this machine; got '{text}'."
        ) from error


def available_bytes(device: Device) -> int | None:
    """Free memory of the device, or None where nothing tells."""
    if device.platform != "cpu":
        counters = device.memory_stats() or {}
        limit = counters.get("bytes_limit")
        return None if limit is None else limit - counters.get("bytes_in_use", 0)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
