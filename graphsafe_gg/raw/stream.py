# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Streams of the caller's."""


def stream_address(stream) -> int:
    """The CUstream of an int-like handle or of the __cuda_stream__ protocol."""
    if hasattr(stream, "__cuda_stream__"):
        version, address = stream.__cuda_stream__()
        if version != 0:
            raise ValueError(
                f"raw: stream must speak version 0 of __cuda_stream__; got {version}. "
                "Pass its address."
            )
        return int(address)
    try:
        return int(stream)
    except (TypeError, ValueError):
        raise TypeError(
            "raw: stream must be an address or have __cuda_stream__; got "
            f"{type(stream).__name__}. Pass its CUstream as an int."
        ) from None
