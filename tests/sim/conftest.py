# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated driver for each test; what a test leaves behind fails it."""

import importlib.util

import pytest

HAS_TESTING = importlib.util.find_spec("graphsafe_gg._testing") is not None
collect_ignore_glob = [] if HAS_TESTING else ["test_*.py"]


def pytest_report_header():
    if not HAS_TESTING:
        return "tests/sim: not run; build with -Ccmake.define.GG_TESTING=ON"
    return None


@pytest.fixture
def simulate():
    """Opens simulations with options of the test's choice, one at a time."""
    from simulated import Simulation

    opened = []

    def open_simulation(**options):
        opened.append(Simulation(**options))
        return opened[-1]

    yield open_simulation
    for simulation in opened:
        simulation.finish()


@pytest.fixture
def sim(simulate):
    return simulate()
