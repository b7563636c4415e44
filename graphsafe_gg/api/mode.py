# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which mode a call runs in."""

from graphsafe_gg import _config


def choose_mode(mode: str) -> str:
    if _config.FORCED_MODE:
        return _config.FORCED_MODE
    return "device" if mode == "auto" else mode
