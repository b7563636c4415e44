# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A simulated driver, which encodes tensor maps for the emulated device."""

import importlib.util

import pytest

HAS_TESTING = importlib.util.find_spec("graphsafe_gg._testing") is not None
collect_ignore_glob = [] if HAS_TESTING else ["test_*.py"]


def pytest_report_header():
    if not HAS_TESTING:
        return "tests/emulation: not run; build with -Ccmake.define.GG_TESTING=ON"
    return None


@pytest.fixture(scope="module")
def sim():
    from graphsafe_gg import _testing

    simulation = _testing.open()
    simulation.set_log(False)
    yield simulation
    simulation.close()
