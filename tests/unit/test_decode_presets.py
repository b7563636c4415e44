# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Model shapes and presets."""

import pytest

from graphsafe_gg.decode.errors import UsageError
from graphsafe_gg.decode.presets import (
    find_model,
    load_models,
    models_matching,
    models_table,
    preset_for,
)
from graphsafe_gg.decode.stack import DTYPES
from graphsafe_gg.mlp.activation import check_activation


def test_presets_every_model_is_a_legal_layer():
    for model in load_models().values():
        assert 1 <= model.top_k <= model.num_experts
        assert model.hidden > 0
        assert model.intermediate > 0
        check_activation(model.name, model.activation)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "cuda"])
def test_presets_name_known_models_and_dtypes(platform):
    preset = preset_for(platform)
    assert find_model(preset.model).name == preset.model
    assert preset.dtype in DTYPES


def test_presets_gpu_is_the_model_of_record():
    preset = preset_for("cuda")
    assert (preset.model, preset.num_layers) == ("Qwen3-30B-A3B", 8)
    assert preset.num_tokens == 64


def test_find_model_ignores_case():
    model = find_model("qwen3-30b-a3b")
    shape = (model.num_experts, model.top_k, model.hidden, model.intermediate)
    assert shape == (128, 8, 2048, 768)


def test_find_model_errors():
    with pytest.raises(UsageError, match=r"--model must.*got 'mixtrel-8x7b'.*Mixtral"):
        find_model("mixtrel-8x7b")
    with pytest.raises(UsageError, match=r"got ''\.$"):
        find_model("")


def test_models_matching():
    assert models_matching(8, 2) == ["Mixtral-8x7B", "Mixtral-8x22B", "Grok-1"]
    assert models_matching(7, 2) == []


def test_models_table_lists_every_model():
    lines = models_table().splitlines()
    assert len(lines) == 1 + len(load_models())
    assert any(
        line.split() == ["OLMoE-1B-7B", "64", "8", "2048", "1024"] for line in lines
    )
