# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Model shapes, and what the command runs when no option says so."""

import dataclasses
import difflib
import functools
import importlib.resources
import json

from graphsafe_gg.decode.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Model:
    """The shapes of one MoE layer of a public model.

    Attributes:
      name: as in models.json.
      num_experts: experts of a layer.
      top_k: experts per token.
      hidden: width of a token.
      intermediate: width inside an expert.
      activation: gated, as in `grouped_mlp`.
      left_out: parts of the model's MoE layer that the command does not run.
    """

    name: str
    num_experts: int
    top_k: int
    hidden: int
    intermediate: int
    activation: str = "swiglu"
    left_out: str = ""

    @property
    def elements_of_one_expert(self) -> int:
        return 3 * self.hidden * self.intermediate


@dataclasses.dataclass(frozen=True)
class Preset:
    """A run that ends in under two minutes on the machine it is made for."""

    model: str
    num_layers: int
    num_tokens: int
    num_steps: int
    dtype: str


_PRESETS = {
    "cpu": Preset("Granite-3-1B-A400M", 4, 8, 10, "f32"),
    "gpu": Preset("Qwen3-30B-A3B", 8, 64, 50, "bf16"),
}


def preset_for(platform: str) -> Preset:
    """The preset of a JAX platform; anything but a CPU counts as a GPU."""
    return _PRESETS["cpu" if platform == "cpu" else "gpu"]


@functools.cache
def load_models() -> dict[str, Model]:
    """All models of models.json by name."""
    file = importlib.resources.files("graphsafe_gg.decode") / "models.json"
    models = [Model(**entry) for entry in json.loads(file.read_text())["models"]]
    return {model.name: model for model in models}


def find_model(name: str) -> Model:
    """The model of that name, whatever the case of its letters."""
    by_lower_name = {key.lower(): model for key, model in load_models().items()}
    if name.lower() in by_lower_name:
        return by_lower_name[name.lower()]
    close = difflib.get_close_matches(name.lower(), by_lower_name, n=3, cutoff=0.4)
    names = [by_lower_name[key].name for key in close]
    hint = f" Did you mean {' or '.join(names)}?" if names else ""
    raise UsageError(
        f"--model must be a name that --list-models prints; got '{name}'.{hint}"
    )


def models_matching(num_experts: int, top_k: int) -> list[str]:
    """Names of the models with these numbers of experts."""
    return [
        model.name
        for model in load_models().values()
        if (model.num_experts, model.top_k) == (num_experts, top_k)
    ]


def models_table() -> str:
    """What --list-models prints."""
    lines = [f"{'model':<22}{'experts':>8}{'top-k':>7}{'hidden':>8}{'inner':>8}"]
    for model in load_models().values():
        left_out = f"  (without {model.left_out})" if model.left_out else ""
        lines.append(
            f"{model.name:<22}{model.num_experts:>8}{model.top_k:>7}"
            f"{model.hidden:>8}{model.intermediate:>8}{left_out}"
        )
    return "\n".join(lines)
