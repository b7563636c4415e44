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


@pytest.fixture
def cublaslt():
    """Opens a faked cuBLASLt with options of the test's choice, for every call that it
    can serve. What the runtime does wrong with it fails the test."""
    from graphsafe_gg import _testing

    _testing.open_cublaslt()
    _testing.set_cublaslt_use("always")
    yield _testing.open_cublaslt
    assert _testing.cublaslt_violations() == []
    assert _testing.num_live_cublaslt_objects() == 0
    _testing.set_cublaslt_use("auto")
    _testing.close_cublaslt()


@pytest.fixture
def machine(cublaslt, simulate):
    """Opens a simulation that closes before the library."""
    return simulate


@pytest.fixture
def raw_on_the_simulation(monkeypatch):
    """The raw interface calls the extension that holds the simulated driver."""
    from graphsafe_gg import _ffi, _testing

    names = ("RawSlot", "raw_problem", "raw_configs", "raw_initialize", "raw_launch")
    for name in names:
        monkeypatch.setattr(_ffi, name, getattr(_testing, name))


@pytest.fixture
def stream(sim):
    """A stream of the caller's."""
    from raw_calls import Stream

    from graphsafe_gg import _testing

    opened = Stream(sim)
    yield opened
    sim.drain()
    _testing.destroy_stream(opened.address)
