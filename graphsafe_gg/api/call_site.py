# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Stable ids of call sites: a hash of the name, so that programs hold no names."""

import hashlib

from graphsafe_gg import _ffi


def call_site(name: str) -> int:
    """The id of a named call site, as a signed 64-bit integer, entered in the name table."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    site = int.from_bytes(digest, "little", signed=True)
    _ffi.name_call_site(site % 2**64, name)
    return site
