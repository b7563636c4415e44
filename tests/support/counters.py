# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Counters of one call site or device, summed over the devices that have them."""

import graphsafe_gg as gg


def site_count(name: str, counter: str) -> int:
    devices = gg.stats()["devices"].values()
    return sum(device["sites"].get(name, {}).get(counter, 0) for device in devices)


def device_count(counter: str) -> int:
    return sum(device[counter] for device in gg.stats()["devices"].values())


def fallbacks_of(name: str) -> dict[str, int]:
    """Reason to count, of a call site."""
    total: dict[str, int] = {}
    for device in gg.stats()["devices"].values():
        for reason, count in device["sites"].get(name, {}).get("fallbacks", {}).items():
            total[reason] = total.get(reason, 0) + count
    return total
