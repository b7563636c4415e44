# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Calls in device mode for tests of what a device records.

On a CPU, where the call itself would raise, a stand-in records instead: only to
rehearse the tests.
"""

import re

import jax
import numpy as np
import pytest
from support.operands import Operands
from support.platforms import is_cuda
from support.products import Products, run_products

from graphsafe_gg import _ffi
from graphsafe_gg.api.call_site import call_site


class _StandIn:
    """Computes with cut sizes and keeps the first message of each call site."""

    def __init__(self, device: jax.Device):
        self._device = device
        self._records: dict[int, str] = {}

    def run(self, operands: Operands, name: str) -> Products:
        site = call_site(name) % 2**64
        m, cut, rows = len(operands.lhs), [], 0
        for index, size in enumerate(np.asarray(operands.group_sizes).tolist()):
            if size < 0:
                self._record(
                    site, f"group_sizes[{index}] must be >= 0; got {size}", name
                )
            elif size > m - rows:
                rule = f"sum(group_sizes[:{index + 1}]) must be at most m = {m}"
                self._record(site, f"{rule}; got {rows + size}", name)
            cut.append(min(max(size, 0), m - rows))
            rows += cut[-1]
        sizes = np.array(cut, np.int32)
        return run_products(*operands._replace(group_sizes=sizes), mode="device")

    def _record(self, site: int, rule: str, name: str) -> None:
        text = f"device {self._device.id}: grouped_gemm: {rule} (call site {name}). "
        self._records.setdefault(site, text)

    def take(self, site: int | None) -> list[str]:
        sites = sorted(self._records) if site is None else [site]
        return [self._records.pop(s) for s in sites if s in self._records]


@pytest.fixture
def device_call(device, monkeypatch):
    """Runs products in mode "device" under a call-site name; sizes may be bad."""
    if is_cuda(device):
        return lambda operands, name: run_products(*operands, mode="device", name=name)
    stand_in = _StandIn(device)
    monkeypatch.setattr(_ffi, "take_size_errors", stand_in.take)
    return stand_in.run


def recorded(device: jax.Device, rule: str, site: str) -> str:
    """Pattern of the line that check() raises for a record."""
    return re.escape(f"device {device.id}: grouped_gemm: {rule} (call site {site}). ")
