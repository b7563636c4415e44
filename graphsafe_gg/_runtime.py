# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the runtime knows: recorded errors and counters."""

from graphsafe_gg import _config, _ffi
from graphsafe_gg._errors import GroupSizesError


def check() -> None:
    """Waits for every device and raises the bad group sizes that one recorded.

    In device mode nothing on the host sees the sizes, so a bad one (negative, or a sum
    above m) is cut to the rows that exist and recorded. Each record is raised once.

    Raises:
      GroupSizesError: the first record of each device and call site, one a line.
    """
    _raise_if_any(_ffi.take_size_errors(None))


def raise_recorded_errors(site: int) -> None:
    """Raises what an earlier execution of this call site recorded. Does not wait."""
    _raise_if_any(_ffi.take_size_errors(site))


def stats() -> dict:
    """Counters as a plain dict: ``devices``, ``config`` and ``build``.

    ``devices`` maps a device ordinal to: ``launches`` (products launched or captured; a
    replay adds none), ``eager_copies`` and ``captured_copies`` (early copies issued),
    ``copies`` (early copies that have run, replays and loop turns included, from stamps
    made on the device; one whose ticket no call waits for shows with the next that has
    a slot), ``host_waits`` and ``host_wait_us``, ``slots``,
    ``pinned_bytes``, ``cublaslt`` (its version, or why it is not used), and ``sites``:
    call-site name to ``executions`` (one for each run of the program, replays
    included), ``eager_calls``, ``captured_calls``, ``host_waits``, ``host_wait_us``,
    ``host_wait_max_us``, ``fallbacks`` (reason to count: calls that made their own copy
    of the sizes), ``host_size_launches`` (``cublaslt``, or why the project's own
    kernels, to count: calls whose sizes the host knew) and ``guards_tripped`` (cuBLASLt
    launches whose sizes were another execution's, computed anew). ``config`` holds the
    environment variables as read at import, ``build`` how the extension was built.
    """
    return {
        "devices": _ffi.device_stats(),
        "config": _config.as_dict(),
        "build": _ffi.build_info(),
    }


def _raise_if_any(messages: list[str]) -> None:
    if messages:
        raise GroupSizesError("\n".join(messages))
