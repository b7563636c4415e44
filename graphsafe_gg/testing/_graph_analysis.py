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
from graphsafe_gg.testing._thunks import Dump, Instruction, Module, Thunk
from graphsafe_gg.testing.graph_report import (
    CommandBuffer,
    Finding,
    GraphReport,
    GroupedCall,
    Loop,
    Operation,
)
from graphsafe_gg.testing.targets import Target

_OURS = re.compile(r"^graphsafe_gg_(grouped_gemm|drhs)_(\w+?)_v\d+$")
_OUR_COPY = re.compile(r"^graphsafe_gg_group_sizes_copy(_uncaptured)?_v\d+$")
_TRANSPARENT = ("bitcast", "get-tuple-element", "tuple")
_NESTING_KINDS = ("kCustomCall", "kDynamicSliceFusion", "kAsyncStart")
_KERNEL_KINDS = ("kCustomKernel", "kKernel", "kCopy")
_HOST_MEMORY = "S(5)"
# From this version on a graph takes the child nodes that a slice fusion needs.
_SLICE_FUSION_CUDA = (12, 9)
_COMMAND_TYPES = {
    "kCustomKernel": "FUSION",
    "kKernel": "FUSION",
    "kCopy": "FUSION",
    "kCustomCall": "CUSTOM_CALL",
    "kDynamicSliceFusion": "DYNAMIC_SLICE_FUSION",
    "kGemm": "CUBLAS",
    "kCublasLtMatmul": "CUBLASLT",
    "kCuDnn": "CUDNN",
    "kConvolution": "CONVOLUTION",
    "kConditional": "CONDITIONAL",
    "kWhile": "WHILE",
}
_COLLECTIVE = re.compile(
    r"^k(AllReduce|AllGather|AllToAll|ReduceScatter|Collective\w*|RaggedAllToAll|Send|Recv"
    r"|Group)(Start|Done)?$"
)
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
            elif thunk.kind == "kSequential":
                self.visit(thunk.children, scope, graph)
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

    def is_host_copy(self, operation: Operation) -> bool:
        instruction = self._module.instructions.get(operation.instruction)
        return bool(instruction) and _HOST_MEMORY in instruction.text


def _grouped_call(instruction: Instruction) -> GroupedCall | None:
    if found := _OURS.match(instruction.target):
        site = instruction.site
        name = "" if site is None else call_site_name(site)
        return GroupedCall(product=found[1], mode=found[2], name=name)
    if found := _OUR_COPY.match(instruction.target):
        mode = "uncaptured" if found[1] else "early"
        return GroupedCall(product="group_sizes_copy", mode=mode, name="")
    return None


def analyse(
    dump: Dump, log: str, target: Target | str, probe: Callable[[], Dump]
) -> GraphReport:
    """The report of a dump. `probe` compiles again with min_graph_size 1."""
    flat = _Flattener(dump.module)
    flat.visit(dump.thunks)
    explain = _Explainer(flat, dump, cuda_version(target), probe)
    findings, short_runs = [], []
    for loop in flat.loops:
        if loop.graph is None and loop.trip_count is None:
            findings.append(_unknown_loop(loop))
    for operation in flat.operations:
        if operation.graph is not None:
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
        target=target_text(target),
        operations=tuple(flat.operations),
        graphs=graphs,
        loops=tuple(flat.loops),
        findings=tuple(findings),
        short_runs=tuple(short_runs),
        notes=(_CUB_NOTE,) if _CUB_WARNING in log else (),
        command_types=dump.command_types,
        min_graph_size=dump.min_graph_size,
    )


def _unknown_loop(loop: Loop) -> Finding:
    operation = Operation(
        "kWhile", loop.instruction, loop.op_name, "", None, None, loop.scope, ()
    )
    return Finding(
        operation,
        is_blocking=True,
        reason="its trip count is unknown: the host reads the predicate at each turn.",
        advice="Use lax.scan or a fixed trip count, or capture the loop: XLA_FLAGS='"
        "--xla_gpu_enable_command_buffer=+WHILE --xla_gpu_graph_min_graph_size=1'.",
    )


class _Explainer:
    """Why an operation outside every graph is there; None if its run is only short."""

    def __init__(
        self,
        flat: _Flattener,
        dump: Dump,
        version: tuple[int, int],
        probe: Callable[[], Dump],
    ):
        self._flat = flat
        self._types = dump.command_types
        self._min_graph_size = dump.min_graph_size
        self._cuda_version = version
        self._probe = probe
        self._capturable: set[str] | None = None

    def finding(self, operation: Operation) -> Finding | None:
        known = self._known_by_target(operation)
        if known:
            return Finding(operation, *known)
        if self._is_capturable(operation):
            if operation.call or operation.kind == "kConditional":
                return Finding(operation, *self._short_run(operation))
            return None
        return Finding(operation, *self._uncapturable(operation))

    def _known_by_target(self, operation: Operation) -> tuple[bool, str, str] | None:
        mode = operation.call.mode if operation.call else ""
        if mode == "sync":
            return (
                True,
                "mode 'sync' copies the group sizes to the host and waits for them.",
                "Use mode='device' (or 'auto').",
            )
        if mode == "async":
            return (
                True,
                "mode 'async' waits on the host for the early copy of the group sizes.",
                "Use mode='device' (or 'auto'); or keep it and hold the copy behind "
                "its producer (group_sizes_of, before=), so that the wait is short.",
            )
        if mode == "uncaptured":
            return (
                False,
                "inside cond and while a graph cannot record the event of a copy.",
                "Copy the sizes outside of it, or use mode='device'.",
            )
        if operation.target.startswith("xla_ffi_") and "_python_" in operation.target:
            return (
                True,
                "a callback runs Python on the host.",
                "Take jax.debug.print, pure_callback or io_callback out of the step.",
            )
        return None

    def _is_capturable(self, operation: Operation) -> bool:
        if operation.kind in _KERNEL_KINDS and "FUSION" in self._types:
            return not self._flat.is_host_copy(operation)
        if not self._types:
            return False
        if self._capturable is None:
            dump = self._probe()
            probed = _Flattener(dump.module)
            probed.visit(dump.thunks)
            self._capturable = {
                op.instruction for op in probed.operations if op.graph is not None
            }
        return operation.instruction in self._capturable

    def _short_run(self, operation: Operation) -> tuple[bool, str, str]:
        is_branch = operation.kind == "kConditional"
        effect = "the host reads which branch to take" if is_branch else "it runs alone"
        return (
            is_branch,
            f"{effect}, since fewer than {self._min_graph_size} operations that XLA "
            "can capture stand together here.",
            "Lower the limit: XLA_FLAGS=--xla_gpu_graph_min_graph_size=1.",
        )

    def _uncapturable(self, operation: Operation) -> tuple[bool, str, str]:
        blocks = operation.kind == "kConditional"
        if not self._types:
            return (
                blocks,
                "XLA's flags turn CUDA graphs off.",
                "Drop --xla_gpu_enable_command_buffer= from XLA_FLAGS.",
            )
        kind = operation.kind
        wanted = "COLLECTIVES" if _COLLECTIVE.match(kind) else _COMMAND_TYPES.get(kind)
        if wanted and wanted not in self._types:
            return (
                blocks,
                f"XLA's flags allow no {wanted} in a graph.",
                f"Allow it: XLA_FLAGS=--xla_gpu_enable_command_buffer=+{wanted}.",
            )
        if kind == "kDynamicSliceFusion" and self._cuda_version < _SLICE_FUSION_CUDA:
            return (
                False,
                "it reads a slice of a larger array in place, which a graph takes "
                f"from CUDA 12.9 on; the target has {_dotted(self._cuda_version)}.",
                "Update driver and toolkit (cuda13 wheels), or pass arrays of one "
                "layer instead of slices.",
            )
        if operation.call:
            return (
                False,
                "its handler is registered without the command-buffer trait.",
                "This build of graphsafe_gg is broken: install it again.",
            )
        if kind in ("kCustomCall", "kDynamicSliceFusion"):
            return (
                False,
                "its handler is registered without the command-buffer trait.",
                "Take it out of the step; or, if it neither waits nor allocates, "
                "register it with the trait.",
            )
        if kind == "kConditional":
            return (
                True,
                "the host reads which branch to take, since a branch holds something "
                "that cannot be captured.",
                "Mend that first; it is named with this conditional as its scope.",
            )
        if self._flat.is_host_copy(operation):
            return (
                False,
                "it copies between host and device memory.",
                "Move the data before or after the step.",
            )
        return (
            False,
            f"XLA cannot capture operations of kind {kind}.",
            "Take it out of the step, or accept it: allow=(...).",
        )


def cuda_version(target: Target | str) -> tuple[int, int]:
    """The oldest of driver, runtime and toolkit, which decides what is captured."""
    if isinstance(target, Target):
        return target.cuda_version
    fields = ("driver_version", "runtime_version", "compile_time_toolkit_version")
    versions = []
    for field in fields:
        found = re.search(rf'{field}: "(\d+)\.(\d+)', target)
        versions.append((int(found[1]), int(found[2])) if found else (0, 0))
    return min(versions)


def target_text(target: Target | str) -> str:
    if isinstance(target, Target):
        return f"{target.name} (CUDA {_dotted(target.cuda_version)})"
    found = re.search(r'device_description_str: "([^"]*)"', target)
    name = found[1] if found else "target"
    return f"{name} (CUDA {_dotted(cuda_version(target))})"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
