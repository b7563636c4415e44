# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""How much memory a run needs, and whether the device has it."""

import dataclasses

from graphsafe_gg.decode.device import Device, available_bytes
from graphsafe_gg.decode.errors import UsageError
from graphsafe_gg.decode.stack import StackConfig

# Making an expert's weights takes float32 and integer temporaries of its layer; the
# streaming read has an array of its own.
_TEMPORARY_LAYERS = 2.0
_READ_BYTES = 2**30


def needed_bytes(config: StackConfig, num_modes: int) -> int:
    """An estimate from above, in bytes."""
    item_bytes = (
        config.weight_bytes_of_one_expert // config.model.elements_of_one_expert
    )
    temporary = _TEMPORARY_LAYERS * 4 / item_bytes * config.weight_bytes_of_one_layer
    history = config.num_held_steps * config.history_bytes_of_one_step * num_modes
    rows = config.num_tokens * config.model.top_k
    width = 3 * config.model.hidden + 3 * config.model.intermediate
    return int(
        config.num_layers * config.weight_bytes_of_one_layer
        + temporary
        + history
        + rows * width * 4
        + _READ_BYTES
    )


def check_memory(config: StackConfig, num_modes: int, device: Device) -> None:
    """Raises UsageError if the run cannot fit."""
    available, needed = available_bytes(device), needed_bytes(config, num_modes)
    if available is not None and needed > available:
        raise UsageError(
            f"the run needs about {needed / 2**30:.1f} GiB, and {device.device_kind} "
            f"has {available / 2**30:.1f} GiB free. Choose fewer --layers, fewer "
            "--tokens or a smaller --model."
        )


def with_fitting_layers(
    config: StackConfig, num_modes: int, device: Device
) -> StackConfig:
    """Takes off layers until the run fits; at least one layer is left."""
    available = available_bytes(device)
    while (
        available is not None
        and config.num_layers > 1
        and needed_bytes(config, num_modes) > available
    ):
        config = dataclasses.replace(config, num_layers=config.num_layers - 1)
    return config
