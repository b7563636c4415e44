# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A decode run small enough for a unit test: a tiny model, no warm-up, no real read."""

from graphsafe_gg.decode import measure, presets, run
from graphsafe_gg.decode.presets import Model
from graphsafe_gg.decode.stack import StackConfig

TINY = Model("tiny", num_experts=6, top_k=2, hidden=32, intermediate=16)


def tiny_config(**changes) -> StackConfig:
    options = {"num_layers": 2, "num_tokens": 5, "num_steps": 3, "dtype": "f32"}
    return StackConfig(**{"model": TINY, **options, **changes})


def install_tiny_model(monkeypatch) -> None:
    """Makes `--model tiny` known, and the parts of a run that take time short."""
    models = {**presets.load_models(), "tiny": TINY}
    monkeypatch.setattr(presets, "load_models", lambda: models)
    monkeypatch.setattr(measure, "_WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(
        run, "streaming_read", lambda _: measure.StreamingRead(10.0, 2**20, "a test")
    )
