# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Stable ids of call sites: a hash of the name, so that programs hold no names."""

import hashlib

from graphsafe_gg import _ffi

_names: dict[int, str] = {}


def call_site(name: str) -> int:
    """The signed 64-bit id of a named call site, entered in the name table."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    site = int.from_bytes(digest, "little", signed=True)
    _names[site] = name
    _ffi.name_call_site(site % 2**64, name)
    return site


def call_site_name(site: int) -> str:
    """The name behind an id, or "#<hex id>" for one that was never traced here."""
    return _names.get(site, f"#{site % 2**64:016x}")
