# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Stable ids of call sites: a hash of the name, so that programs hold no names."""

import hashlib

from jax.extend.source_info_util import current_name_stack, new_name_stack

from graphsafe_gg import _ffi
from graphsafe_gg._errors import message

_names: dict[int, str] = {}
_Scope = type(new_name_stack("scope").stack[0])


def call_site(name: str) -> int:
    """The signed 64-bit id of a named call site, entered in the name table."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    site = int.from_bytes(digest, "little", signed=True)
    _names[site] = name
    _ffi.name_call_site(site % 2**64, name)
    return site


def check_name(op: str, name) -> None:
    if name is not None and not isinstance(name, str):
        rule, advice = "be a string or None", "It names the call site in messages."
        raise TypeError(message(op, "name", rule, repr(name), advice))


def default_name(op: str, weights) -> str:
    """Names a call that its caller left unnamed: named scopes, operation, weights.

    Such as "layer_3/grouped_gemm[8x64x96 bfloat16]". The scopes are those of the
    function that is being traced (jit and scan begin anew); transformations and rows do
    not count, so that a call has one site in every batch and under grad.
    """
    scopes = [
        entry.name for entry in current_name_stack().stack if type(entry) is _Scope
    ]
    shape = "x".join(map(str, weights.shape))
    return "/".join([*scopes, f"{op}[{shape} {weights.dtype}]"])


def call_site_name(site: int) -> str:
    """The name behind an id, or "#<hex id>" for one that was never traced here."""
    return _names.get(site, f"#{site % 2**64:016x}")
