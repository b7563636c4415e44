# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of a driver that the runtime rests on: one list, two drivers."""

import pytest

from graphsafe_gg import _testing


@pytest.mark.parametrize("name", _testing.conformance_checks())
def test_conformance_simulated(simulate, name):
    simulate(num_devices=2)
    assert _testing.run_conformance(name, "simulated") == ""


@pytest.mark.gpu
@pytest.mark.parametrize("name", _testing.conformance_checks())
def test_conformance_real(name):
    outcome = _testing.run_conformance(name, "real")
    if outcome.startswith("skipped"):
        pytest.skip(outcome)
    assert outcome == ""
