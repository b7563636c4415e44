# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The README's figures are those of the result files."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import readme_tables  # noqa: E402


def test_benchmarks_readme_has_the_figures_on_record():
    text = readme_tables.README.read_text()
    assert readme_tables.filled(text) == text


def test_benchmarks_readme_figures_are_replaced():
    text = readme_tables.README.read_text()
    name = next(iter(readme_tables.TABLES))
    begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
    head, rest = text.split(begin)
    older = head + begin + "| older |" + end + rest.split(end)[1]
    assert readme_tables.filled(older) == text


def test_benchmarks_readme_without_a_mark_is_an_error():
    with pytest.raises(SystemExit, match="must have the marks of table step once"):
        readme_tables.filled("no table")
