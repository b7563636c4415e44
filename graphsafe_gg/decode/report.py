# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The results of a run: one table for people, one JSON document for programs."""

import dataclasses
import datetime
import importlib.metadata
import json
import math
import platform

import jax
import numpy as np

import graphsafe_gg
from graphsafe_gg.decode.device import Device
from graphsafe_gg.decode.measure import ModeRun, StreamingRead
from graphsafe_gg.decode.reference import Comparison
from graphsafe_gg.decode.stack import StackConfig

SCHEMA = "graphsafe_gg/decode/1"


@dataclasses.dataclass(frozen=True)
class ModeRow:
    """One line of the table. Host waits are None where nothing counts them."""

    mode: str
    ms_per_step: float
    ms_per_step_min: float
    ms_per_step_max: float
    host_waits_per_step: float | None
    host_wait_ms_per_step: float | None
    weight_gb_s: float
    ratio_to_read: float
    max_rel_err: float
    worst_step_layer_token: tuple[int, int, int]
    ok: bool


@dataclasses.dataclass(frozen=True)
class Results:
    """Everything a run found out."""

    config: StackConfig
    device: Device
    read: StreamingRead
    tolerance: float
    num_checked_steps: int
    weight_bytes_per_step: float
    rows: list[ModeRow]
    sizes_file: str | None

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)


def mode_row(
    mode: str,
    run: ModeRun,
    comparison: Comparison,
    read: StreamingRead,
    limit: float,
) -> ModeRow:
    """Derives the figures of one mode."""
    num_steps = len(run.step_ms)
    weight_gb_s = comparison.weight_bytes_per_step / run.median_ms / 1e6
    waits, wait_us = run.num_host_waits, run.host_wait_us
    return ModeRow(
        mode=mode,
        ms_per_step=run.median_ms,
        ms_per_step_min=min(run.step_ms),
        ms_per_step_max=max(run.step_ms),
        host_waits_per_step=None if waits is None else waits / num_steps,
        host_wait_ms_per_step=None if wait_us is None else wait_us / num_steps / 1e3,
        weight_gb_s=weight_gb_s,
        ratio_to_read=weight_gb_s / read.gb_s,
        max_rel_err=comparison.max_rel_err,
        worst_step_layer_token=comparison.worst,
        ok=comparison.max_rel_err <= limit,
    )


def table(results: Results) -> str:
    """What the command prints."""
    heads = (
        "mode",
        "ms/step",
        "host waits/step",
        "waited ms/step",
        "weight GB/s",
        "of read",
        "max rel err",
        "result",
    )
    lines = [heads, *(_cells(row) for row in results.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    text = [_header(results), ""]
    for line in lines:
        padded = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        text.append("  ".join(padded).rstrip())
    return "\n".join([*text, "", _footer(results)])


def write_json(results: Results, path: str) -> None:
    """Writes the results as one JSON document; format/version in `schema`."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(as_dict(results), file, indent=2, allow_nan=False)
        file.write("\n")


def as_dict(results: Results) -> dict:
    """The JSON document; figures that are not finite become null."""
    config, model = results.config, dataclasses.asdict(results.config.model)
    return {
        "schema": SCHEMA,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "device": {
            "platform": results.device.platform,
            "kind": results.device.device_kind,
            "ordinal": results.device.local_hardware_id,
        },
        "model": model,
        "layers": config.num_layers,
        "tokens": config.num_tokens,
        "steps": config.num_steps,
        "dtype": config.dtype,
        "seed": config.seed,
        "sizes_file": results.sizes_file,
        "read": dataclasses.asdict(results.read),
        "weight_bytes_per_step": results.weight_bytes_per_step,
        "checked_steps": results.num_checked_steps,
        "tolerance": results.tolerance,
        "ok": results.ok,
        "rows": [_finite(dataclasses.asdict(row)) for row in results.rows],
    }


def _versions() -> dict[str, str]:
    return {
        "graphsafe_gg": graphsafe_gg.__version__,
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _finite(row: dict) -> dict:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }


def _cells(row: ModeRow) -> tuple[str, ...]:
    return (
        row.mode,
        f"{row.ms_per_step:.3f}",
        _or_dash(row.host_waits_per_step, ".1f"),
        _or_dash(row.host_wait_ms_per_step, ".3f"),
        f"{row.weight_gb_s:.1f}",
        f"{row.ratio_to_read:.2f}",
        f"{row.max_rel_err:.1e}",
        "ok" if row.ok else "WRONG",
    )


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _header(results: Results) -> str:
    config, model = results.config, results.config.model
    source = "recorded group sizes" if config.recorded else "random routers"
    return (
        f"{model.name}: {config.num_layers} MoE layers, {model.num_experts} experts, "
        f"top-{model.top_k}, {config.num_tokens} tokens, {config.dtype}, {source}\n"
        f"on {results.device.device_kind} ({results.device.platform}), "
        f"jax {jax.__version__}, {config.num_steps} timed steps, new tokens each"
    )


def _footer(results: Results) -> str:
    held = f"the last {results.num_checked_steps} of {results.config.num_steps} steps"
    if results.num_checked_steps == results.config.num_steps:
        held = f"all {results.num_checked_steps} steps"
    lines = [
        f"weights read: {results.weight_bytes_per_step / 1e9:.2f} GB a step (experts "
        f"with tokens); streaming read {results.read.gb_s:.1f} GB/s "
        f"({results.read.how}, {results.read.num_bytes / 2**20:.0f} MiB)",
        f"checked: {held} of every mode against float32, limit {results.tolerance:.1e}",
    ]
    if results.config.model.left_out:
        lines.append(f"left out of the model: {results.config.model.left_out}")
    lines += [
        f"WRONG: mode {row.mode}, worst at step, layer, token "
        f"{row.worst_step_layer_token}"
        for row in results.rows
        if not row.ok
    ]
    return "\n".join(lines)
