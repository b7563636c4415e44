# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""examples/train_and_decode.py in small: it learns, decodes, records and replays."""

import importlib
import pathlib

import jax
import numpy as np
import pytest
from support.decode_run import TINY, install_tiny_model

from graphsafe_gg.sizes_file import load_group_sizes

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    install_tiny_model(monkeypatch)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("train_and_decode")


def tiny_config(example):
    return example.Config(
        vocab=len(example.load_text()[1]),
        context=20,
        hidden=32,
        num_experts=TINY.num_experts,
        top_k=TINY.top_k,
    )


def test_example_learns_decodes_records_and_replays(example, tmp_path, capsys):
    config, path = tiny_config(example), tmp_path / "sizes.npz"
    losses = example.run(config, 60, "tiny", str(path))
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.5
    recorded = load_group_sizes(path)
    shape = (config.context - 1, config.num_layers, config.num_experts)
    assert recorded.group_sizes.shape == shape
    assert (recorded.group_sizes.sum(axis=2) == 4 * config.top_k).all()
    out = capsys.readouterr().out
    assert "60 steps" in out
    assert "equal tokens in sync, async, device, auto" in out
    assert out.count(" ok\n") == 3


def test_example_says_which_mode_decodes_other_tokens(example, monkeypatch, tmp_path):
    right = example.decode

    def wrong(params, prompts, config, mode):
        return right(params, prompts, config, mode) + (mode == "async")

    untrained = lambda config, *_: (example.init_params(config, jax.random.key(0)), [0])  # noqa: E731
    monkeypatch.setattr(example, "train", untrained)
    monkeypatch.setattr(example, "MODES", ("sync", "async"))
    monkeypatch.setattr(example, "decode", wrong)
    with pytest.raises(SystemExit, match="mode async decoded other tokens"):
        example.run(tiny_config(example), 1, "tiny", str(tmp_path / "sizes.npz"))
