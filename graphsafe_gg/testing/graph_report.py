# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What `inspect_graph` returns: a step as the host launches it, in plain data."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class GroupedCall:
    """One of this package's operations, as compiled."""

    product: str  # "grouped_gemm", "drhs" or "group_sizes_copy"
    # "device", "sync", "async"; of a copy "early", "ticket" (no host waits for it) or
    # "uncaptured".
    mode: str
    name: str  # of the call site; empty for a copy, which has none

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"{self.product}{name}, mode {self.mode}"


@dataclasses.dataclass(frozen=True)
class Operation:
    """One thunk of XLA's launch sequence.

    Attributes:
      kind: XLA's kind of thunk, such as "kCustomKernel" or "kCustomCall".
      instruction: HLO instruction.
      op_name: JAX's name of it: transformations, named scopes, primitive.
      target: custom-call target, also of a call inside a slice fusion; else empty.
      call: set if it is one of this package's operations.
      graph: index into `GraphReport.graphs`, or None if the host launches it alone.
      scope: the loops and branches around it, outermost first: "while.5 body".
      inputs: HLO instructions whose results it reads.
    """

    kind: str
    instruction: str
    op_name: str
    target: str
    call: GroupedCall | None
    graph: int | None
    scope: tuple[str, ...]
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        what = f"{self.call}; " if self.call else ""
        target = f", target {self.target}" if self.target and not self.call else ""
        where = f", in {' > '.join(self.scope)}" if self.scope else ""
        name = f", {self.op_name}" if self.op_name else ""
        instruction = self.instruction or self.kind
        return f"{instruction} ({what}{self.kind}{target}{name}{where})"


@dataclasses.dataclass(frozen=True)
class CommandBuffer:
    """Operations that XLA captures into one CUDA graph and launches as one."""

    index: int
    scope: tuple[str, ...]
    operations: tuple[Operation, ...]

    @property
    def calls(self) -> tuple[Operation, ...]:
        return tuple(op for op in self.operations if op.call)


@dataclasses.dataclass(frozen=True)
class Loop:
    """A while loop. Outside a graph the host launches each turn of it.

    With a known trip count it does so without waiting; else it reads the predicate.
    """

    instruction: str
    op_name: str
    trip_count: int | None
    graph: int | None
    scope: tuple[str, ...]


# What a finding says of its operation.
BLOCKS = "blocks the host"  # which waits for the device, or runs code of the step
OUTSIDE = "is outside a CUDA graph"
MISPLACED = "cannot be in the CUDA graph that it is in"


@dataclasses.dataclass(frozen=True)
class Finding:
    """An operation that keeps the step from being graph-safe."""

    operation: Operation
    verdict: str
    reason: str
    advice: str

    @property
    def is_blocking(self) -> bool:
        return self.verdict == BLOCKS

    def __str__(self) -> str:
        return f"{self.operation} {self.verdict}: {self.reason} {self.advice}"


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """How XLA launches a compiled step on the target.

    Attributes:
      target: the GPU, with its CUDA version.
      operations: in the order in which the host launches them; a loop's body once. The
        condition of a loop with a known trip count, which never runs, is left out.
      graphs: XLA's command buffers.
      loops: while loops, captured or not.
      findings: what is not graph-safe, in launch order.
      short_runs: operations that XLA could capture but launches one by one, since fewer
        than `min_graph_size` of them stand together. They do not wait.
      notes: where the real device may differ from this report.
      command_types: kinds of operation that XLA's flags allow in a graph.
      min_graph_size: xla_gpu_graph_min_graph_size.
    """

    target: str
    operations: tuple[Operation, ...]
    graphs: tuple[CommandBuffer, ...]
    loops: tuple[Loop, ...]
    findings: tuple[Finding, ...]
    short_runs: tuple[Operation, ...]
    notes: tuple[str, ...]
    command_types: tuple[str, ...]
    min_graph_size: int

    @property
    def calls(self) -> tuple[Operation, ...]:
        """This package's operations, in launch order."""
        return tuple(op for op in self.operations if op.call)

    @property
    def blocking(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.is_blocking)

    @property
    def is_one_graph(self) -> bool:
        """Whether one launch of one CUDA graph is the whole step."""
        return len(self.graphs) == 1 and all(op.graph == 0 for op in self.operations)

    def position(self, instruction: str) -> int:
        """Index into `operations` of the one that runs an HLO instruction."""
        for index, operation in enumerate(self.operations):
            if operation.instruction == instruction:
                return index
        raise ValueError(
            "graph report: instruction must be one of the step's; "
            f"got {instruction!r}. See operations."
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield (
            f"{self.target}: {len(self.operations)} operations, "
            f"{len(self.graphs)} CUDA graphs, {len(self.calls)} grouped calls, "
            f"{len(self.findings)} findings"
        )
        for graph in self.graphs:
            where = f" in {' > '.join(graph.scope)}" if graph.scope else ""
            yield (
                f"graph {graph.index}{where}: {len(graph.operations)} operations, "
                f"{len(graph.calls)} grouped calls"
            )
        for loop in self.loops:
            turns = "unknown" if loop.trip_count is None else loop.trip_count
            runner = "the host" if loop.graph is None else f"graph {loop.graph}"
            yield f"loop {loop.instruction}: turns {turns}, run by {runner}"
        for finding in self.findings:
            yield f"finding: {finding}"
        for operation in self.short_runs:
            yield f"short run, launched alone: {operation}"
        for note in self.notes:
            yield f"note: {note}"

    def table(self) -> str:
        """One line an operation, in launch order: graph, kind, instruction, call."""
        lines = []
        for operation in self.operations:
            graph = "-" if operation.graph is None else str(operation.graph)
            scope = "  " * len(operation.scope)
            call = f"  {operation.call}" if operation.call else ""
            lines.append(
                f"{graph:>3}  {scope}{operation.kind} {operation.instruction}{call}"
            )
        return "\n".join(lines)
