# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what XLA dumps of a GPU program: its thunks, their instructions, its flags.

A thunk is one step of the host's launch sequence. The dumps are meant for people, so
everything here fails loudly on a line it does not know.
"""

import dataclasses
import pathlib
import re

_THUNK = re.compile(r"^(\s*)(\d+): (k\w+)")
_BRANCH = re.compile(r"^\s*([a-z_][\w ]*):\s*$")
_METADATA_BLOCK = re.compile(r"thunk_metadata \{(.*?)\n\}", re.S)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_OPERAND = re.compile(r"%([\w.\-]+)")


class DumpError(RuntimeError):
    """A dump that is missing or has a form this version does not know."""


@dataclasses.dataclass
class Thunk:
    thunk_id: int
    kind: str
    branch: str  # of the parent: "body", "true_branch", ...; empty in a sequence
    children: list["Thunk"]
    instruction: str = ""


@dataclasses.dataclass(frozen=True)
class Instruction:
    name: str
    opcode: str
    operands: tuple[str, ...]
    text: str

    def attribute(self, pattern: str) -> str:
        found = re.search(pattern, self.text)
        return found[1] if found else ""

    @property
    def op_name(self) -> str:
        return self.attribute(r'op_name="([^"]*)"')

    @property
    def target(self) -> str:
        return self.attribute(r'custom_call_target="([^"]*)"')

    @property
    def site(self) -> int | None:
        text = self.attribute(r"\bsite = (-?\d+) : i64")
        return int(text) if text else None

    @property
    def trip_count(self) -> int | None:
        text = self.attribute(r'"known_trip_count":\{"n":"(\d+)"\}')
        return int(text) if text else None


@dataclasses.dataclass(frozen=True)
class Module:
    instructions: dict[str, Instruction]
    computations: dict[str, tuple[str, ...]]  # name -> its instructions, in order


@dataclasses.dataclass(frozen=True)
class Dump:
    thunks: list[Thunk]
    module: Module
    command_types: tuple[str, ...]  # what XLA may capture: FUSION, CUSTOM_CALL, ...
    min_graph_size: int


def read_dump(folder: pathlib.Path) -> Dump:
    sequence = _text(folder, ".thunk_sequence_after_thunk_passes.txt")
    # Written only if a pass changed something, that is, if anything was captured.
    sequence = sequence or _text(folder, ".thunk_sequence.txt")
    metadata = _text(folder, ".thunk_metadata.txt")
    hlo = _text(folder, "gpu_after_optimizations.txt")
    config = _text(folder, ".config.pbtxt")
    if not (sequence and metadata and hlo and config):
        names = ", ".join(sorted(path.name for path in folder.glob("*"))) or "no file"
        raise DumpError(
            "graph safety: XLA must dump thunk_sequence, thunk_metadata, "
            f"gpu_after_optimizations and config; got {names}. "
            "Use a jax from 0.10.2 on that this package supports."
        )
    thunks = parse_thunks(sequence)
    _name_thunks(thunks, metadata)
    types = re.findall(r"xla_gpu_enable_command_buffer: (\w+)", config)
    size = re.search(r"xla_gpu_graph_min_graph_size: (-?\d+)", config)
    return Dump(thunks, parse_module(hlo), tuple(types), int(size[1]) if size else 0)


def _text(folder: pathlib.Path, suffix: str) -> str:
    found = sorted(folder.glob(f"*{suffix}"))
    return found[-1].read_text() if found else ""


def parse_thunks(text: str) -> list[Thunk]:
    """The tree that the indentation of the dump draws."""
    root: list[Thunk] = []
    open_thunks: list[tuple[int, Thunk]] = []
    branch_of: dict[int, str] = {}
    label = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        thunk_line = _THUNK.match(line)
        if thunk_line is None:
            branch_line = _BRANCH.match(line)
            if branch_line is None:
                raise DumpError(
                    f"graph safety: a thunk must stand on the line; got {line!r}. "
                    "Use a jax from 0.10.2 on that this package supports."
                )
            label = branch_line[1]
            continue
        indent = len(thunk_line[1])
        while open_thunks and open_thunks[-1][0] >= indent:
            open_thunks.pop()
        parent = open_thunks[-1][1] if open_thunks else None
        # A label's own indentation says nothing: XLA strips that of the first.
        if label and parent is not None:
            branch_of[id(parent)] = label
        label = ""
        thunk = Thunk(
            thunk_id=int(thunk_line[2]),
            kind=thunk_line[3],
            branch=branch_of.get(id(parent), "") if parent else "",
            children=[],
        )
        (parent.children if parent else root).append(thunk)
        open_thunks.append((indent, thunk))
    return root


def _name_thunks(thunks: list[Thunk], metadata: str) -> None:
    names = {}
    for block in _METADATA_BLOCK.findall(metadata):
        name = re.search(r'profile_annotation: "([^"]*)"', block)
        number = re.search(r"thunk_id: (\d+)", block)
        if name and number:
            names[int(number[1])] = name[1]

    def visit(siblings: list[Thunk]) -> None:
        for thunk in siblings:
            thunk.instruction = names.get(thunk.thunk_id, "")
            visit(thunk.children)

    visit(thunks)


def parse_module(text: str) -> Module:
    instructions: dict[str, Instruction] = {}
    computations: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = computations.setdefault(header[1], [])
        elif found := _INSTRUCTION.match(line):
            name, rest = found[1], found[2]
            opcode, operands = _opcode_and_operands(rest)
            instructions[name] = Instruction(name, opcode, operands, rest)
            current.append(name)
    in_order = {key: tuple(names) for key, names in computations.items()}
    return Module(instructions, in_order)


def _opcode_and_operands(text: str) -> tuple[str, tuple[str, ...]]:
    """Splits 'shape opcode(operands), attributes'."""
    rest = text[_closing(text, 0) + 1 :] if text.startswith("(") else text
    rest = rest.lstrip() if text.startswith("(") else rest.partition(" ")[2]
    opcode, _, _ = rest.partition("(")
    start = len(opcode)
    operands = rest[start : _closing(rest, start) + 1] if start < len(rest) else ""
    return opcode.strip(), tuple(_OPERAND.findall(operands))


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text) - 1
