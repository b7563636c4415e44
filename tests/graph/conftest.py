# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Tests that compile for a GPU without one, as a user's step compiles: with XLA's own
flags. They need the extra `graph`; without it they are skipped, or fail where
GG_REQUIRE_GRAPH_TESTS=1 says that it must be there."""

import functools
import os

import pytest

from graphsafe_gg.testing import CompilerMissingError, inspect_graph


@pytest.fixture(autouse=True)
def _xla_flags_of_a_user(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)


@functools.cache
def _why_missing() -> str:
    try:
        inspect_graph(lambda x: x + 1, 0.0)
    except CompilerMissingError as error:
        return str(error)
    return ""


@pytest.fixture
def compiler():
    """Skips, or fails, a test that compiles where the compiler is missing."""
    if why := _why_missing():
        if os.environ.get("GG_REQUIRE_GRAPH_TESTS") == "1":
            pytest.fail(f"GG_REQUIRE_GRAPH_TESTS=1, but {why}")
        pytest.skip(why)
