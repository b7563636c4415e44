# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Progress: on a terminal only, with tqdm or without."""

import io
import sys

import pytest

from graphsafe_gg.decode.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run_three(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("steps", 3) as advance:
        for _ in range(3):
            advance()
    return stream.getvalue()


def test_progress_is_silent_off_a_terminal(monkeypatch):
    assert run_three(monkeypatch, io.StringIO()) == ""


def test_progress_without_tqdm_counts(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    written = run_three(monkeypatch, Terminal())
    assert written.startswith("\rsteps: 1/3\rsteps: 2/3\rsteps: 3/3\r")
    assert written.endswith("\033[K")


def test_progress_with_tqdm(monkeypatch):
    pytest.importorskip("tqdm")
    assert "steps" in run_three(monkeypatch, Terminal())


def test_progress_cleans_up_after_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)

    def fail():
        with progress("steps", 3) as advance:
            advance()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert stream.getvalue().endswith("\033[K")
