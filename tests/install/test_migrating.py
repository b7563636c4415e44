# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""design/migrating.md: its snippets run, and its claims hold while they do."""

import pathlib

import pytest
from support.page_snippets import output_of_snippet, python_blocks

pytest.importorskip("flax", reason="flax is not installed: the extra 'test' has it")

PAGE = pathlib.Path(__file__).resolve().parents[2] / "design/migrating.md"


def test_migrating_snippets_run(tmp_path):
    program = "\n".join(python_blocks(PAGE))
    assert program.count("close(") >= 6
    output_of_snippet(program, tmp_path)
