# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a shared library's dynamic section: what it links and what it exports.

Covers 64-bit little-endian ELF; layouts are those of the System V ABI.
"""

import dataclasses
import pathlib
import struct

_SHT_DYNAMIC, _SHT_DYNSYM = 6, 11
_DT_NULL, _DT_NEEDED = 0, 1
_SHN_UNDEF = 0
_HIDDEN = (1, 2)  # internal, hidden


@dataclasses.dataclass(frozen=True)
class _Section:
    type: int
    data: bytes
    link: int


def _sections(path: pathlib.Path) -> list[_Section]:
    image = path.read_bytes()
    assert image[:6] == b"\x7fELF\x02\x01", f"{path} is not a 64-bit ELF file"
    (table,) = struct.unpack_from("<Q", image, 40)
    entry_bytes, count = struct.unpack_from("<HH", image, 58)
    found = []
    for i in range(count):
        _, kind, _, _, offset, size_bytes, link, _, _, _ = struct.unpack_from(
            "<IIQQQQIIQQ", image, table + i * entry_bytes
        )
        found.append(_Section(kind, image[offset : offset + size_bytes], link))
    return found


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def needed_libraries(path: pathlib.Path) -> list[str]:
    """File names of the libraries that the loader opens with this one."""
    sections = _sections(path)
    (dynamic,) = (s for s in sections if s.type == _SHT_DYNAMIC)
    names = sections[dynamic.link].data
    needed = []
    for tag, value in struct.iter_unpack("<qQ", dynamic.data):
        if tag == _DT_NULL:
            break
        if tag == _DT_NEEDED:
            needed.append(_text(names, value))
    return needed


def exported_symbols(path: pathlib.Path) -> list[str]:
    """Names that other libraries can bind to."""
    sections = _sections(path)
    (symbols,) = (s for s in sections if s.type == _SHT_DYNSYM)
    names = sections[symbols.link].data
    return [
        _text(names, name)
        for name, info, other, section, _, _ in struct.iter_unpack(
            "<IBBHQQ", symbols.data
        )
        if info >> 4 != 0 and section != _SHN_UNDEF and other & 3 not in _HIDDEN
    ]
