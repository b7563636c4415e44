# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Command line of `graphsafe-gg`: options, errors as one line, exit status."""

import argparse
import os
import sys
from typing import NoReturn

import jax

from graphsafe_gg import _runtime
from graphsafe_gg.api.validation import check_mode
from graphsafe_gg.decode.device import find_device
from graphsafe_gg.decode.errors import UsageError
from graphsafe_gg.decode.memory import check_memory, with_fitting_layers
from graphsafe_gg.decode.presets import (
    Model,
    find_model,
    models_matching,
    models_table,
    preset_for,
)
from graphsafe_gg.decode.report import table, write_json
from graphsafe_gg.decode.run import run
from graphsafe_gg.decode.stack import DTYPES, StackConfig
from graphsafe_gg.sizes_file import RecordedSizes, load_group_sizes

_OK, _WRONG_RESULT, _USAGE = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    """Reports a bad option in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE, f"{self.prog}: {message}\n")


def main(argv: list[str] | None = None) -> int:
    """Returns 0, 1 if a mode's results are wrong, 2 if an option or a file is."""
    options = _parser().parse_args(argv)
    if options.list_models:
        print(models_table())
        return _OK
    try:
        return _decode(options)
    except (UsageError, NotImplementedError) as error:
        reason = str(error)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        reason = f"out of memory; choose fewer --layers. {str(error).splitlines()[0]}"
    print(f"graphsafe-gg decode: {reason}", file=sys.stderr)
    return _USAGE


def _decode(options: argparse.Namespace) -> int:
    _check_writable(options.json)
    device = find_device(options.device)
    modes = _parse_modes(options.modes)
    recorded = _recorded(options.sizes)
    config = make_config(options, device.platform, recorded)
    if recorded is None and options.layers is None:
        config = with_fitting_layers(config, len(modes), device)
    check_memory(config, len(modes), device)
    results = run(config, modes, device, options.sizes)
    print(table(results))
    if options.json:
        write_json(results, options.json)
    return _OK if results.ok else _WRONG_RESULT


def make_config(
    options: argparse.Namespace, platform: str, recorded: RecordedSizes | None
) -> StackConfig:
    """Fills in what the options leave open."""
    preset = preset_for(platform)
    dtype = options.dtype or preset.dtype
    if recorded is None:
        return StackConfig(
            model=find_model(options.model or preset.model),
            num_layers=options.layers or preset.num_layers,
            num_tokens=options.tokens or preset.num_tokens,
            num_steps=options.steps or preset.num_steps,
            dtype=dtype,
            seed=options.seed,
        )
    model = _model_of(options, preset.model, recorded)
    steps = _within("--steps", options.steps, recorded.group_sizes.shape[0], options)
    layers = _within("--layers", options.layers, recorded.group_sizes.shape[1], options)
    if options.tokens:
        raise UsageError("--tokens cannot be used with --sizes. The file tells it.")
    recorded = recorded.first(steps, layers)
    return StackConfig(
        model=model,
        num_layers=layers,
        num_tokens=recorded.num_tokens,
        num_steps=steps,
        dtype=dtype,
        seed=options.seed,
        recorded=recorded,
    )


def _model_of(
    options: argparse.Namespace, preset_name: str, recorded: RecordedSizes
) -> Model:
    """The model that recorded sizes are replayed on; its experts must match."""
    num_experts, top_k = recorded.num_experts, recorded.top_k
    matching = models_matching(num_experts, top_k)
    wanted = options.model or recorded.model
    if wanted is None and preset_name in matching:
        wanted = preset_name
    counts = f"{num_experts} experts and top_k = {top_k}"
    hint = f"Models with these: {', '.join(matching) or 'none'}."
    if wanted is None:
        raise UsageError(
            f"--model must name the shapes for {options.sizes}, with {counts}; got "
            f"none. {hint}"
        )
    model = find_model(wanted)
    if model.num_experts != num_experts:
        raise UsageError(
            f"{options.sizes}: has {counts}, but {model.name} has {model.num_experts} "
            f"experts and top_k = {model.top_k}. {hint}"
        )
    return model


def _within(
    option: str, value: int | None, maximum: int, options: argparse.Namespace
) -> int:
    if value is not None and value > maximum:
        raise UsageError(
            f"{option} must be at most {maximum}, as {options.sizes} has; got {value}."
        )
    return value or maximum


def _recorded(path: str | None) -> RecordedSizes | None:
    try:
        return load_group_sizes(path) if path else None
    except ValueError as error:
        raise UsageError(str(error)) from error


def _parse_modes(text: str) -> list[str]:
    modes = list(dict.fromkeys(mode.strip() for mode in text.split(",")))
    for mode in modes:
        try:
            check_mode("--modes", mode)
        except ValueError as error:
            raise UsageError(str(error)) from error
    forced = _runtime.stats()["config"]["GG_MODE"]
    if forced:
        raise UsageError(
            f"GG_MODE={forced} forces every mode to be the same. Unset it to compare."
        )
    return modes


def _check_writable(path: str | None) -> None:
    """Finds out before the run what would spoil its end."""
    if path is None:
        return
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise UsageError(f"--json must name a file that can be written; got '{path}'.")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_positive.__name__ = "positive integer"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="graphsafe-gg", description="Grouped GEMM for JAX.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    decode = commands.add_parser(
        "decode",
        help="time and check decode steps of a stack of MoE layers",
        description="Runs decode steps of a stack of MoE layers in each mode, checks "
        "every mode against a float32 reference and prints one table.",
        epilog="Without options: a preset that ends in under two minutes. Exit status: "
        "0, 1 if results are wrong, 2 if an option or a file is.",
    )
    decode.add_argument("--model", help="shapes to run, a name of --list-models")
    decode.add_argument("--list-models", action="store_true", help="list and exit")
    decode.add_argument("--layers", type=_positive, metavar="N", help="MoE layers")
    decode.add_argument("--tokens", type=_positive, metavar="N", help="tokens a step")
    decode.add_argument("--steps", type=_positive, metavar="N", help="timed steps")
    decode.add_argument(
        "--modes", default="sync,device,auto", help="comma-separated (%(default)s)"
    )
    decode.add_argument(
        "--sizes", metavar="FILE.npz", help="replay group sizes recorded from a model"
    )
    decode.add_argument("--dtype", choices=list(DTYPES), help="of weights and tokens")
    decode.add_argument("--json", metavar="FILE", help="also write the results here")
    decode.add_argument("--device", help="cpu, gpu or gpu:N (JAX's first device)")
    decode.add_argument("--seed", type=int, default=0, help="of weights and tokens (0)")
    return parser
