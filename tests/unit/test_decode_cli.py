# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`graphsafe-gg decode` from the outside: exit status, output, refusals."""

import json
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from support.decode_run import install_tiny_model, tiny_config

from graphsafe_gg import _runtime
from graphsafe_gg.decode import memory
from graphsafe_gg.decode.cli import main
from graphsafe_gg.sizes_file import save_group_sizes

TINY = ["decode", "--model", "tiny", "--layers", "2", "--tokens", "4", "--steps", "2"]


@pytest.fixture(autouse=True)
def _tiny_model(monkeypatch):
    install_tiny_model(monkeypatch)


def refusal(capsys, *arguments):
    """The one line on stderr of a run that must exit with 2."""
    try:
        status = main(["decode", *arguments])
    except SystemExit as error:
        status = error.code
    out, err = capsys.readouterr()
    assert status == 2
    assert not out
    assert err.count("\n") == 1, err
    assert err.startswith(("graphsafe-gg decode: ", "graphsafe-gg: "))
    return err


def save_sizes(tmp_path, top_k=2, **options):
    path = tmp_path / "sizes.npz"
    sizes = np.zeros((3, 2, 6), np.int32)
    sizes[..., 1], sizes[..., 4] = 3, 1
    sizes[1] *= 2
    save_group_sizes(path, sizes, top_k, **options)
    return str(path)


def test_decode_basic(capsys, tmp_path):
    path = tmp_path / "out.json"
    assert main([*TINY, "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    assert not err
    lines = [line.split() for line in out.splitlines()]
    rows = [line for line in lines if line and line[0] in ("sync", "device", "auto")]
    assert [row[0] for row in rows] == ["sync", "device", "auto"]
    assert all(row[-1] == "ok" for row in rows)
    document = json.loads(path.read_text())
    assert document["schema"] == "graphsafe_gg/decode/1"
    assert document["model"]["name"] == "tiny"
    shape = [document[key] for key in ("layers", "tokens", "steps", "dtype")]
    assert shape == [2, 4, 2, "f32"]
    assert document["device"]["platform"] == "cpu"
    assert set(document["versions"]) >= {"graphsafe_gg", "jax", "jaxlib", "python"}
    assert [row["mode"] for row in document["rows"]] == ["sync", "device", "auto"]
    for row in document["rows"]:
        assert row["ok"]
        assert 0 < row["max_rel_err"] < document["tolerance"]
        assert row["ms_per_step"] > 0
        assert row["host_waits_per_step"] is None
        assert row["ratio_to_read"] == pytest.approx(row["weight_gb_s"] / 10.0)


@pytest.mark.parametrize("fault", ["one row", "nan", "group"])
def test_decode_exits_1_on_wrong_results(capsys, monkeypatch, fault):
    # The package exports a function of the module's name, so look the module up.
    module = sys.modules["graphsafe_gg.mlp.grouped_mlp"]
    right = module.grouped_gemm

    def wrong(lhs, rhs, group_sizes, *, mode, name, **options):
        is_target = mode == "device" and "layer1.down" in name
        if is_target and fault == "group":
            group_sizes = jnp.roll(group_sizes, 1)
        out = right(lhs, rhs, group_sizes, mode=mode, name=name, **options)
        if is_target and fault == "one row":
            return out.at[3].multiply(1.01)
        if is_target and fault == "nan":
            return out.at[3, 5].set(jnp.nan)
        return out

    monkeypatch.setattr(module, "grouped_gemm", wrong)
    assert main([*TINY, "--modes", "sync,device"]) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    results = {line[0]: line[-1] for line in lines if line and line[0] != "WRONG:"}
    assert results["sync"] == "ok"
    assert results["device"] == "WRONG"


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_decode_16_bit(capsys, dtype):
    assert main([*TINY, "--dtype", dtype, "--modes", "device"]) == 0
    assert f", {dtype}," in capsys.readouterr().out


def test_decode_replays_a_sizes_file(capsys, tmp_path):
    sizes, path = save_sizes(tmp_path, model="tiny"), tmp_path / "out.json"
    arguments = ["decode", "--sizes", sizes, "--modes", "device", "--json", str(path)]
    assert main(arguments) == 0
    assert "recorded group sizes" in capsys.readouterr().out
    document = json.loads(path.read_text())
    shape = [document[key] for key in ("layers", "tokens", "steps", "sizes_file")]
    assert shape == [2, 4, 3, sizes]
    # Two experts of two layers have rows in every step.
    assert document["weight_bytes_per_step"] == 4 * 3 * 32 * 16 * 4


def test_decode_replays_a_part_of_a_sizes_file(capsys, tmp_path):
    sizes = save_sizes(tmp_path, model="tiny")
    arguments = ["--sizes", sizes, "--layers", "1", "--steps", "1", "--modes", "device"]
    assert main(["decode", *arguments]) == 0
    assert "1 MoE layers, 6 experts, top-2, 2 tokens" in capsys.readouterr().out


def test_decode_lists_models(capsys):
    assert main(["decode", "--list-models"]) == 0
    assert "Qwen3-30B-A3B" in capsys.readouterr().out


def test_decode_repeats_bits_of_its_errors(tmp_path):
    errors = []
    for name in ("a", "b"):
        path = tmp_path / name
        assert main([*TINY, "--modes", "device", "--json", str(path)]) == 0
        errors.append(json.loads(path.read_text())["rows"][0]["max_rel_err"])
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--model", "GPT-2"], "--model must be a name that --list-models prints"),
        (["--layers", "0"], "--layers: invalid positive integer value: '0'"),
        (["--tokens", "-3"], "--tokens: invalid positive integer value"),
        (["--steps", "many"], "--steps: invalid positive integer value: 'many'"),
        (["--modes", "sync,fast"], "mode must be one of 'auto', .*got 'fast'"),
        (["--modes", ""], "mode must be one of .*got ''"),
        (["--dtype", "f64"], "--dtype: invalid choice: 'f64'"),
        (["--device", "abacus"], "--device must be cpu, gpu or gpu:N.*'abacus'"),
        (["--device", "cpu:99"], "--device must be .*'cpu:99'"),
        (["--json", "no/such/folder/out.json"], "--json must name a file"),
        (["--sizes", "none.npz"], r"none\.npz: cannot be read: No such file"),
        (["--seed", "x"], "--seed: invalid int value"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_decode_exits_2_on_a_bad_option(capsys, arguments, text):
    line = refusal(capsys, *arguments)
    assert re.search(text, line), line


def test_decode_exits_2_without_a_command(capsys):
    with pytest.raises(SystemExit) as error:
        main([])
    assert error.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "arguments", "text"),
    [
        ({}, ["--model", "Mixtral-8x7B"], "has 6 experts and top_k = 2, but Mixtral"),
        ({}, ["--model", "tiny", "--tokens", "4"], "--tokens cannot be used with"),
        ({}, ["--model", "tiny", "--layers", "3"], "--layers must be at most 2"),
        ({}, ["--model", "tiny", "--steps", "4"], "--steps must be at most 3"),
        ({"top_k": 1}, [], "--model must name the shapes .* 6 experts and top_k = 1"),
        ({"model": "GPT-2"}, [], "got 'GPT-2'"),
    ],
)
def test_decode_exits_2_on_a_sizes_file_that_does_not_fit(
    capsys, tmp_path, options, arguments, text
):
    line = refusal(capsys, "--sizes", save_sizes(tmp_path, **options), *arguments)
    assert re.search(text, line), line


def test_decode_exits_2_when_memory_is_short(capsys, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda _: 2**30)
    line = refusal(capsys, "--model", "Mixtral-8x7B", "--layers", "4")
    assert "GiB free. Choose fewer --layers" in line


def test_decode_exits_2_when_a_mode_is_forced(capsys, monkeypatch):
    forced = {"devices": {}, "config": {"GG_MODE": "sync"}}
    monkeypatch.setattr(_runtime, "stats", lambda: forced)
    assert "GG_MODE=sync forces" in refusal(capsys, "--model", "tiny")


def test_decode_takes_fewer_layers_when_memory_is_short(capsys, monkeypatch):
    one_layer = tiny_config(num_layers=1, num_tokens=2, num_steps=1)
    available = memory.needed_bytes(one_layer, num_modes=1)
    monkeypatch.setattr(memory, "available_bytes", lambda _: available)
    arguments = ["--model", "tiny", "--tokens", "2", "--steps", "1"]
    assert main(["decode", *arguments, "--modes", "device"]) == 0
    assert "tiny: 1 MoE layers" in capsys.readouterr().out


def test_decode_runs_as_a_module(tmp_path):
    command = [sys.executable, "-m", "graphsafe_gg.decode", "--layers", "none"]
    # Elsewhere, since -m would import a checkout in the working directory.
    options = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    done = subprocess.run(command, **options)
    assert done.returncode == 2
    assert done.stderr.startswith("graphsafe-gg decode: ")
    assert done.stderr.count("\n") == 1
