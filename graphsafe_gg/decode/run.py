# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""One run: build, compile, time, compare."""

import jax

from graphsafe_gg.decode.device import Device
from graphsafe_gg.decode.measure import ModeRun, run_steps, streaming_read
from graphsafe_gg.decode.progress import progress
from graphsafe_gg.decode.reference import compare, tolerance
from graphsafe_gg.decode.report import Results, mode_row
from graphsafe_gg.decode.stack import (
    LayerWeights,
    StackConfig,
    StepInputs,
    build_inputs,
    build_layer,
    compile_step,
    initial_state,
)


def run(
    config: StackConfig,
    modes: list[str],
    device: Device,
    sizes_file: str | None = None,
) -> Results:
    """Runs every mode on `device` and compares each with the reference."""
    with jax.default_device(device):
        layers, inputs = _build(config)
        runs = _compile(config, modes, inputs, layers)
        with progress("steps", config.num_steps) as on_step:
            run_steps(
                list(runs.values()), inputs, layers, config.num_steps, device, on_step
            )
        read = streaming_read(device)
        limit = tolerance(config)
        comparisons = {}
        with progress("check", len(modes) * config.num_held_steps) as on_step:
            for mode, mode_run in runs.items():
                comparisons[mode] = compare(
                    config,
                    inputs,
                    layers,
                    mode_run.state.history,
                    mode_run.num_executed,
                    on_step,
                )
    rows = [
        mode_row(mode, runs[mode], comparisons[mode], read, limit) for mode in modes
    ]
    return Results(
        config=config,
        device=device,
        read=read,
        tolerance=limit,
        num_checked_steps=config.num_held_steps,
        weight_bytes_per_step=comparisons[modes[0]].weight_bytes_per_step,
        rows=rows,
        sizes_file=sizes_file,
    )


def _build(config: StackConfig) -> tuple[list[LayerWeights], StepInputs]:
    layers = []
    with progress("weights", config.num_layers) as advance:
        for layer_idx in range(config.num_layers):
            layers.append(jax.block_until_ready(build_layer(config, layer_idx)))
            advance()
    return layers, jax.block_until_ready(build_inputs(config))


def _compile(
    config: StackConfig,
    modes: list[str],
    inputs: StepInputs,
    layers: list[LayerWeights],
) -> dict[str, ModeRun]:
    runs = {}
    with progress("compile", len(modes)) as advance:
        for mode in modes:
            state = initial_state(config)
            runs[mode] = ModeRun(
                compile_step(config, mode, state, inputs, layers), state
            )
            advance()
    return runs
