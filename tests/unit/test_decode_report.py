# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The table and the JSON document."""

import json
import math

import jax
import pytest
from support.decode_run import tiny_config

from graphsafe_gg.decode.measure import ModeRun, StreamingRead
from graphsafe_gg.decode.reference import Comparison
from graphsafe_gg.decode.report import Results, mode_row, table, write_json
from graphsafe_gg.decode.stack import initial_state

READ = StreamingRead(100.0, 2**20, "a test")


def make_row(mode="device", error=1e-6, waits=0, wait_us=0.0):
    run = ModeRun(lambda *_: None, initial_state(tiny_config()))
    run.step_ms = [4.0, 1.0, 2.0, 2.0]
    run.num_host_waits, run.host_wait_us = waits, wait_us
    return mode_row(mode, run, Comparison(error, (3, 1, 2), 6e6), READ, 1e-5)


def make_results(*rows):
    return Results(
        config=tiny_config(num_steps=4),
        device=jax.devices("cpu")[0],
        read=READ,
        tolerance=1e-5,
        num_checked_steps=4,
        weight_bytes_per_step=6e6,
        rows=list(rows),
        sizes_file=None,
    )


def test_mode_row_figures():
    row = make_row(waits=8, wait_us=2000.0)
    assert (row.ms_per_step, row.ms_per_step_min, row.ms_per_step_max) == (
        2.0,
        1.0,
        4.0,
    )
    assert row.weight_gb_s == pytest.approx(3.0)
    assert row.ratio_to_read == pytest.approx(0.03)
    assert row.host_waits_per_step == 2.0
    assert row.host_wait_ms_per_step == 0.5
    assert row.ok


@pytest.mark.parametrize("error", [1.1e-5, math.inf, math.nan])
def test_mode_row_is_wrong_past_the_limit(error):
    assert not make_row(error=error).ok


def test_table_has_a_line_per_mode():
    results = make_results(
        make_row("sync", waits=8, wait_us=2000.0), make_row("device")
    )
    lines = table(results).splitlines()
    assert any(
        line.split()
        == ["sync", "2.000", "2.0", "0.500", "3.0", "0.03", "1.0e-06", "ok"]
        for line in lines
    )
    assert any(
        line.split()[:4] == ["device", "2.000", "0.0", "0.000"] for line in lines
    )
    assert "all 4 steps" in table(results)


def test_table_says_where_a_result_is_wrong():
    results = make_results(make_row("sync"), make_row("device", error=0.5))
    assert not results.ok
    assert "WRONG: mode device, worst at step, layer, token (3, 1, 2)" in table(results)


def test_table_marks_waits_that_nothing_counts():
    line = table(make_results(make_row(waits=None, wait_us=None))).splitlines()[4]
    assert line.split()[:4] == ["device", "2.000", "-", "-"]


def test_write_json_is_strict_json(tmp_path):
    path = tmp_path / "out.json"
    write_json(make_results(make_row(error=math.inf), make_row("sync")), str(path))
    document = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert document["rows"][0]["max_rel_err"] is None
    assert document["rows"][0]["ok"] is False
    assert document["rows"][1]["max_rel_err"] == 1e-6
    assert document["ok"] is False
