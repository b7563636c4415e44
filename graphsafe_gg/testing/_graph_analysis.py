# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""From a dump to a report: flattens the thunks, finds and explains what breaks a graph.

The rules are XLA's (CommandBufferConversionPass): thunks that can be captured and stand
together become one command buffer, if they are at least `min_graph_size`; any other
thunk ends the run.
"""

import re
from collections.abc import Callable, Iterator

from graphsafe_gg.api.call_site import call_site_name
from graphsafe_gg.testing._graph_reasons import (
    Explainer,
    is_misplaced,
    misplaced,
    unknown_loop,
)
from graphsafe_gg.testing._thunks import Dump, Instruction, Module, Thunk
from graphsafe_gg.testing.graph_report import (
    CommandBuffer,
    GraphReport,
    GroupedCall,
    Loop,
    Operation,
)
from graphsafe_gg.testing.targets import Target, cuda_version, describe

_OURS = re.compile(r"^graphsafe_gg_(grouped_gemm|drhs)_(\w+?)_v\d+$")
_OUR_COPY = re.compile(r"^graphsafe_gg_group_sizes_(copy|ticket|copy_uncaptured)_v\d+$")
_COPY_MODES = {"copy": "early", "ticket": "ticket", "copy_uncaptured": "uncaptured"}
_TRANSPARENT = ("bitcast", "get-tuple-element", "tuple")
_NESTING_KINDS = ("kCustomCall", "kDynamicSliceFusion", "kAsyncStart")
_CUB_WARNING = "deviceless CUB scratch size data"
_CUB_NOTE = (
    "a large sort runs as CUB's radix sort on the device, which this machine could not "
    "compile for: whether that is captured is not seen here"
)


class _Flattener:
    """Walks the thunks once, in launch order."""

    def __init__(self, module: Module):
        self._module = module
        self.operations: list[Operation] = []
        self.loops: list[Loop] = []
        self.graph_scopes: list[tuple[str, ...]] = []

    def visit(
        self, thunks: list[Thunk], scope: tuple[str, ...] = (), graph: int | None = None
    ) -> None:
        for thunk in thunks:
            if thunk.kind == "kCommandBuffer":
                self.graph_scopes.append(scope)
                self.visit(thunk.children, scope, len(self.graph_scopes) - 1)
            elif thunk.kind == "kWhile":
                self._visit_loop(thunk, scope, graph)
            elif thunk.kind == "kSequential" or (
                thunk.kind == "kAsyncStart" and thunk.children
            ):
                self.visit(thunk.children, scope, graph)
            elif thunk.kind == "kAsyncDone":
                continue
            else:
                self.operations.append(self._operation(thunk, scope, graph))
                if thunk.kind != "kDynamicSliceFusion":
                    for child in thunk.children:
                        inner = f"{thunk.instruction} {child.branch}".strip()
                        self.visit([child], (*scope, inner), graph)

    def _visit_loop(
        self, thunk: Thunk, scope: tuple[str, ...], graph: int | None
    ) -> None:
        instruction = self._module.instructions.get(thunk.instruction)
        trip_count = instruction.trip_count if instruction else None
        op_name = instruction.op_name if instruction else ""
        self.loops.append(Loop(thunk.instruction, op_name, trip_count, graph, scope))
        for child in thunk.children:
            if child.branch == "body" or trip_count is None:
                inner = (*scope, f"{thunk.instruction} {child.branch}")
                self.visit([child], inner, graph)

    def _operation(
        self, thunk: Thunk, scope: tuple[str, ...], graph: int | None
    ) -> Operation:
        instruction = self._module.instructions.get(thunk.instruction)
        if instruction is None:
            return Operation(
                thunk.kind, thunk.instruction, "", "", None, graph, scope, ()
            )
        inner = instruction
        if thunk.kind in _NESTING_KINDS:
            inner = self._nested_call(instruction)
        return Operation(
            kind=thunk.kind,
            instruction=thunk.instruction,
            op_name=inner.op_name or instruction.op_name,
            target=inner.target,
            call=_grouped_call(inner),
            graph=graph,
            scope=scope,
            inputs=tuple(dict.fromkeys(self._inputs(instruction))),
        )

    def _nested_call(self, instruction: Instruction) -> Instruction:
        """The custom call that a fusion holds, if it holds one."""
        called = instruction.attribute(r"calls=%?([\w.\-]+)")
        for name in self._module.computations.get(called, ()):
            nested = self._module.instructions[name]
            if nested.target:
                return nested
        return instruction

    def _inputs(self, instruction: Instruction) -> Iterator[str]:
        for name in instruction.operands:
            producer = self._module.instructions.get(name)
            if producer and producer.opcode in _TRANSPARENT:
                yield from self._inputs(producer)
            else:
                yield name


def _grouped_call(instruction: Instruction) -> GroupedCall | None:
    if found := _OURS.match(instruction.target):
        site = instruction.site
        name = "" if site is None else call_site_name(site)
        return GroupedCall(product=found[1], mode=found[2], name=name)
    if found := _OUR_COPY.match(instruction.target):
        return GroupedCall("group_sizes_copy", mode=_COPY_MODES[found[1]], name="")
    return None


def analyse(
    dump: Dump, log: str, target: Target | str, probe: Callable[[], Dump]
) -> GraphReport:
    """The report of a dump. `probe` compiles again with min_graph_size 1."""
    flat = _Flattener(dump.module)
    flat.visit(dump.thunks)
    explain = Explainer(dump, cuda_version(target), lambda: _captured(probe()))
    findings, short_runs = [], []
    for loop in flat.loops:
        if loop.graph is None and loop.trip_count is None:
            findings.append(unknown_loop(loop))
    for operation in flat.operations:
        if operation.graph is not None:
            if is_misplaced(operation, flat.graph_scopes[operation.graph]):
                findings.append(misplaced(operation))
            continue
        finding = explain.finding(operation)
        if finding:
            findings.append(finding)
        else:
            short_runs.append(operation)
    graphs = tuple(
        CommandBuffer(
            index, scope, tuple(op for op in flat.operations if op.graph == index)
        )
        for index, scope in enumerate(flat.graph_scopes)
    )
    return GraphReport(
        target=describe(target),
        operations=tuple(flat.operations),
        graphs=graphs,
        loops=tuple(flat.loops),
        findings=tuple(findings),
        short_runs=tuple(short_runs),
        notes=(_CUB_NOTE,) if _CUB_WARNING in log else (),
        command_types=dump.command_types,
        min_graph_size=dump.min_graph_size,
    )


def _captured(dump: Dump) -> set[str]:
    flat = _Flattener(dump.module)
    flat.visit(dump.thunks)
    return {op.instruction for op in flat.operations if op.graph is not None}
