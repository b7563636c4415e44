# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables: name, default, allowed values. Read once, at import."""

import os

_ALLOWED = {
    # What a device-mode call does when an earlier execution of it saw bad sizes:
    # log it once, raise, or leave it to check().
    "GG_ON_BAD_SIZES": ("log", "raise", "check"),
    # Forces every call into one mode.
    "GG_MODE": ("", "sync", "device"),
}


def _read(name: str) -> str:
    allowed = _ALLOWED[name]
    value = os.environ.get(name, allowed[0])
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(
            f"graphsafe_gg: {name} must be one of {choices}; got {value!r}. "
            "Correct or unset it."
        )
    return value


ON_BAD_SIZES = _read("GG_ON_BAD_SIZES")
FORCED_MODE = _read("GG_MODE")
