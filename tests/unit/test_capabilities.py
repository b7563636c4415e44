# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The capability table, and that the README and the package agree with it."""

import itertools
import json
import pathlib

import jax
import pytest
from support.operands import DTYPES as OPERAND_DTYPES
from support.operands import MODES as CALL_MODES

from graphsafe_gg.api import capabilities
from graphsafe_gg.api.capabilities import DTYPES, MODES, PRODUCTS, capability

ROOT = pathlib.Path(__file__).parents[2]


def test_capabilities_of_the_readme_are_those_of_the_table():
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("an installed package has no README")
    text = readme.read_text()
    begin, end = "<!-- capabilities: begin -->\n", "\n<!-- capabilities: end -->"
    assert text.count(begin) == 1
    printed = text.split(begin)[1].split(end)[0]
    assert printed == capabilities.markdown()


def test_capabilities_of_the_readme_name_each_row_once():
    """A printed line stands for every combination of what its cells list."""
    printed = []
    for line in capabilities.markdown().splitlines()[2:]:
        where, dtypes, products, modes, _, status, _ = line.strip("| ").split(" | ")
        lists = [cell.split(", ") for cell in (dtypes, products, modes)]
        printed += [(where, *cells, status) for cells in itertools.product(*lists)]
    rows = [
        (f"{r.platform} {r.architecture}", r.dtype, r.product, r.mode, r.status)
        for r in capabilities.table()
    ]
    assert sorted(printed) == sorted(rows)


def test_capabilities_cover_every_type_and_mode_that_a_call_takes():
    assert {jax.numpy.dtype(dtype).name for dtype in OPERAND_DTYPES} == set(DTYPES)
    assert set(CALL_MODES) == {"auto", *MODES}
    rows = list(capabilities.table())
    assert len(rows) == len(set(rows))
    assert len(rows) == 5 * len(DTYPES) * len(PRODUCTS) * len(MODES)


def test_capabilities_stable_rows_name_a_record_that_is_there():
    """A GPU row is stable only with GPU tests on record."""
    for row in capabilities.table():
        if row.platform != "cuda" or row.status != "stable":
            continue
        path = ROOT / row.reason.split(": ")[1]
        if not path.parent.exists():
            pytest.skip("an installed package has no records")
        assert json.loads(path.read_text())


@pytest.mark.parametrize("compute_capability", [70, 75, 80, 86, 89, 90, 100, 120])
def test_capabilities_architectures(compute_capability):
    """As csrc/kernels/dispatch.cc: from 8.0 on."""
    name = capabilities.architecture_of(compute_capability)
    row = capability("cuda", name, "float32", "forward", "device")
    assert (row.status == "not built") == (compute_capability < 80)
    assert row.status != "stable" or compute_capability == 90


def test_capabilities_of_a_type_that_is_not_built():
    row = capability("cuda", "sm_90", "float64", "forward", "device")
    assert (row.path, row.status) == ("", "not built")
    assert row.reason == "no kernel multiplies float64"
