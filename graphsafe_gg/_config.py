# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables: name, default, allowed values. Read once, at import."""

import os

_CHOICES = {
    # What a device-mode call does when an earlier execution of it saw bad sizes:
    # log it once, raise, or leave it to check().
    "GG_ON_BAD_SIZES": ("log", "raise", "check"),
    # Forces every call into one mode.
    "GG_MODE": ("", "sync", "device"),
    # Per-group cuBLASLt when the host knows the sizes: as the sizes advise, never, or
    # wherever it can run (to measure).
    "GG_CUBLASLT": ("auto", "off", "always"),
    # "1" puts an NVTX range around each handler call, for profilers.
    "GG_NVTX": ("", "0", "1"),
    # "1" lowers every call to jax.lax.ragged_dot.
    "GG_DISABLE": ("", "0", "1"),
}


def _choice(name: str) -> str:
    allowed = _CHOICES[name]
    value = os.environ.get(name, allowed[0])
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(
            f"graphsafe_gg: {name} must be one of {choices}; got {value!r}. "
            "Correct or unset it."
        )
    return value


def _seconds(name: str) -> float:
    text = os.environ.get(name, "0")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(
            f"graphsafe_gg: {name} must be a number of seconds >= 0; got {text!r}. "
            "Correct or unset it."
        )
    return value


ON_BAD_SIZES = _choice("GG_ON_BAD_SIZES")
FORCED_MODE = _choice("GG_MODE")
CUBLASLT = _choice("GG_CUBLASLT")
NVTX = _choice("GG_NVTX") == "1"
DISABLED = _choice("GG_DISABLE") == "1"
# Seconds after which a host wait for sizes is an error; 0 waits for ever.
WAIT_DEADLINE_S = _seconds("GG_WAIT_DEADLINE_S")


def child_environment(xla_flags: str, **variables: str) -> dict[str, str]:
    """This environment for a child process, with `xla_flags` added to XLA_FLAGS."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {xla_flags}".strip()
    return {**os.environ, **variables, "XLA_FLAGS": flags}


def as_dict() -> dict[str, str | float | bool]:
    return {
        "GG_ON_BAD_SIZES": ON_BAD_SIZES,
        "GG_MODE": FORCED_MODE,
        "GG_CUBLASLT": CUBLASLT,
        "GG_NVTX": NVTX,
        "GG_DISABLE": DISABLED,
        "GG_WAIT_DEADLINE_S": WAIT_DEADLINE_S,
    }
