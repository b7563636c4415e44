# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Why an operation is outside of every graph or blocks the host, and what to do."""

import re
from collections.abc import Callable

from graphsafe_gg.testing._thunks import Dump
from graphsafe_gg.testing.graph_report import (
    BLOCKS,
    MISPLACED,
    OUTSIDE,
    Finding,
    Loop,
    Operation,
)

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


def unknown_loop(loop: Loop) -> Finding:
    operation = Operation(
        "kWhile", loop.instruction, loop.op_name, "", None, None, loop.scope, ()
    )
    return Finding(
        operation,
        BLOCKS,
        reason="its trip count is unknown: the host reads the predicate at each turn.",
        advice="Use lax.scan or a fixed trip count, or capture the loop: XLA_FLAGS='"
        "--xla_gpu_enable_command_buffer=+WHILE --xla_gpu_graph_min_graph_size=1'.",
    )


def is_misplaced(operation: Operation, graph_scope: tuple[str, ...]) -> bool:
    """A copy with its event, in a branch or loop that is captured itself."""
    call = operation.call
    return call is not None and call.mode == "early" and operation.scope != graph_scope


def misplaced(operation: Operation) -> Finding:
    return Finding(
        operation,
        MISPLACED,
        "it records an event, which no body of a captured cond or while may hold.",
        "Copy the sizes outside of it, or use mode='device'.",
    )


class Explainer:
    """Says why an operation outside every graph is there.

    `capturable` compiles again, with graphs of one operation, and gives the
    instructions that XLA then captures; it is called only where nothing else tells.
    """

    def __init__(
        self,
        dump: Dump,
        cuda_version: tuple[int, int],
        capturable: Callable[[], set[str]],
    ):
        self._instructions = dump.module.instructions
        self._types = dump.command_types
        self._min_graph_size = dump.min_graph_size
        self._cuda_version = cuda_version
        self._find_capturable = capturable
        self._capturable: set[str] | None = None

    def finding(self, operation: Operation) -> Finding | None:
        """None if nothing is wrong but that its run is short."""
        known = self._known_by_target(operation)
        if known:
            return Finding(operation, *known)
        if self._is_capturable(operation):
            if operation.call or operation.kind == "kConditional":
                return Finding(operation, *self._short_run(operation))
            return None
        return Finding(operation, *self._uncapturable(operation))

    def _known_by_target(self, operation: Operation) -> tuple[str, str, str] | None:
        mode = operation.call.mode if operation.call else ""
        if mode == "sync":
            return (
                BLOCKS,
                "mode 'sync' copies the group sizes to the host and waits for them.",
                "Use mode='device' (or 'auto').",
            )
        if mode == "async":
            return (
                BLOCKS,
                "mode 'async' waits on the host for the early copy of the group sizes.",
                "Use mode='device' (or 'auto'); or keep it and hold the copy behind "
                "its producer (group_sizes_of, before=), so that the wait is short.",
            )
        if mode == "uncaptured":
            return (
                OUTSIDE,
                "the copy of the group sizes was asked for without the trait.",
                "Use copy_group_sizes.",
            )
        if operation.target.startswith("xla_ffi_") and "_python_" in operation.target:
            return (
                BLOCKS,
                "a callback runs Python on the host.",
                "Take jax.debug.print, pure_callback or io_callback out of the step.",
            )
        return None

    def _is_capturable(self, operation: Operation) -> bool:
        if operation.kind in _KERNEL_KINDS and "FUSION" in self._types:
            return not self._is_host_copy(operation)
        if not self._types:
            return False
        if self._capturable is None:
            self._capturable = self._find_capturable()
        return operation.instruction in self._capturable

    def _is_host_copy(self, operation: Operation) -> bool:
        instruction = self._instructions.get(operation.instruction)
        return instruction is not None and _HOST_MEMORY in instruction.text

    def _short_run(self, operation: Operation) -> tuple[str, str, str]:
        is_branch = operation.kind == "kConditional"
        effect = "the host reads which branch to take" if is_branch else "it runs alone"
        return (
            BLOCKS if is_branch else OUTSIDE,
            f"{effect}, since fewer than {self._min_graph_size} operations that XLA "
            "can capture stand together here.",
            "Lower the limit: XLA_FLAGS=--xla_gpu_graph_min_graph_size=1.",
        )

    def _uncapturable(self, operation: Operation) -> tuple[str, str, str]:
        verdict = BLOCKS if operation.kind == "kConditional" else OUTSIDE
        if not self._types:
            return (
                verdict,
                "XLA's flags turn CUDA graphs off.",
                "Drop --xla_gpu_enable_command_buffer= from XLA_FLAGS.",
            )
        kind = operation.kind
        wanted = "COLLECTIVES" if _COLLECTIVE.match(kind) else _COMMAND_TYPES.get(kind)
        if wanted and wanted not in self._types:
            return (
                verdict,
                f"XLA's flags allow no {wanted} in a graph.",
                f"Allow it: XLA_FLAGS=--xla_gpu_enable_command_buffer=+{wanted}.",
            )
        if kind == "kDynamicSliceFusion" and self._cuda_version < _SLICE_FUSION_CUDA:
            version = ".".join(map(str, self._cuda_version))
            return (
                OUTSIDE,
                "it reads a slice of a larger array in place, which a graph takes "
                f"from CUDA 12.9 on; the target has {version}.",
                "Update driver and toolkit (cuda13 wheels), or pass arrays of one "
                "layer instead of slices.",
            )
        if operation.call:
            return (
                OUTSIDE,
                "its handler is registered without the command-buffer trait.",
                "This build of graphsafe_gg is broken: install it again.",
            )
        if operation.target:
            return (
                OUTSIDE,
                "its handler is registered without the command-buffer trait.",
                "Take it out of the step; or, if it neither waits nor allocates, "
                "register it with the trait.",
            )
        if kind == "kConditional":
            return (
                BLOCKS,
                "the host reads which branch to take, since a branch holds something "
                "that cannot be captured.",
                "Mend that first; it is named with this conditional as its scope.",
            )
        if self._is_host_copy(operation):
            return (
                OUTSIDE,
                "it copies between host and device memory.",
                "Move the data before or after the step.",
            )
        return (
            OUTSIDE,
            f"XLA cannot capture operations of kind {kind}.",
            "Take it out of the step, or accept it: allow=(...).",
        )
