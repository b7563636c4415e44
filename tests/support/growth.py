# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Growth of the runtime's counters over a piece of a test. A CPU has none."""

import contextlib
from types import SimpleNamespace

import jax

import graphsafe_gg as gg


def counters_of(device: jax.Device, site: str | None = None) -> dict:
    """The device's counters, or those of one call site."""
    found = gg.stats()["devices"].get(device.id if device.platform == "gpu" else -1, {})
    return found if site is None else found.get("sites", {}).get(site, {})


@contextlib.contextmanager
def growth(device: jax.Device, site: str | None = None):
    """Yields a namespace that holds, afterwards, how much each number grew."""
    before = counters_of(device, site)
    grown = SimpleNamespace()
    yield grown
    for name, value in counters_of(device, site).items():
        if isinstance(value, (int, float)):
            setattr(grown, name, value - before.get(name, 0))
