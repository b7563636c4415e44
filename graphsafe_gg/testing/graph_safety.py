# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Is a step one CUDA graph, and what breaks it? Asked on any machine, GPU or not."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphsafe_gg.testing import _deviceless
from graphsafe_gg.testing._graph_analysis import analyse
from graphsafe_gg.testing.graph_report import Finding, GraphReport
from graphsafe_gg.testing.targets import Target, find_target

_MAX_NAMED = 8


def inspect_graph(
    fn: Callable,
    *args: Any,
    target: str | Target | os.PathLike[str] = "h200",
    xla_flags: str = "",
    compiler_options: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
) -> GraphReport:
    """Compiles a step for a GPU and reports how XLA launches it.

    Args:
      fn: the step, jitted or not. It is traced and lowered in this process, so it may
        be a closure, with its own shardings, donation and static arguments; code that
        asks `jax.devices()` or `jax.default_backend()` while traced sees this machine.
      *args: its arguments: arrays, `jax.ShapeDtypeStruct`s, pytrees of them.
      target: "a100", "h100", "h200", "b200", a `testing.targets.Target`, or the path of
        a GpuTargetConfigProto in text form.
      xla_flags: appended to XLA_FLAGS of the environment, which count as well.
      compiler_options: as for `jax.jit`. Those given to the user's own `jax.jit` are
        not seen: repeat them here.
      imports: modules that register the custom calls of the step, for example those of
        another library. Custom calls of a script cannot be seen.

    Returns:
      GraphReport. Nothing is run and no GPU is touched.

    Raises:
      CompilerMissingError: jax's CUDA plugin or ptxas is not installed; says what to
        install (the extra `graph`).
      CompileError: the step does not compile for the target.
      DumpError: this jaxlib is older than 0.10.2, or its dumps have another form.

    Several devices: the step compiles for as many as its shardings name; an
    `jax.sharding.AbstractMesh` names devices that this machine lacks.

    Cost: one compilation in a process of its own, two if something stands outside of a
    graph and the reason is not plain; some seconds for a decode step.

    What it cannot see: design/graph_safety.md.
    """
    chosen = find_target(target)
    module = _deviceless.lower(fn, args)
    options = {key: str(value) for key, value in (compiler_options or {}).items()}
    compiler = _deviceless.Compiler(module, chosen, xla_flags, options, imports)
    dump, log = compiler.dump()

    def probe():
        return compiler.dump(xla_gpu_graph_min_graph_size="1")[0]

    return analyse(dump, log, chosen, probe)


def assert_graph_safe(
    fn: Callable,
    *args: Any,
    target: str | Target | os.PathLike[str] = "h200",
    one_graph: bool = False,
    allow: Sequence[str] = (),
    xla_flags: str = "",
    compiler_options: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
) -> GraphReport:
    """Fails unless a step runs as CUDA graphs, without a wait on the host.

    Nothing may block the host; each operation of this package must be in a CUDA graph,
    and each other one too, unless XLA could capture it but launches it alone because
    too few stand together. A loop with a known trip count may be run by the host, as
    `lax.scan` is by default: it launches the body's graphs at each turn without a wait.

    Args:
      fn, *args, target, xla_flags, compiler_options, imports: as for `inspect_graph`.
      one_graph: demand more: one launch of one graph is the whole step.
      allow: regular expressions; an operation whose instruction, JAX name, target or
        kind one of them matches is not held against the step.

    Returns:
      GraphReport.

    Raises:
      AssertionError: names each operation that is outside a graph or blocks the host,
        with the reason and what to do.
      CompilerMissingError, CompileError, DumpError: as for `inspect_graph`.
    """
    report = inspect_graph(
        fn,
        *args,
        target=target,
        xla_flags=xla_flags,
        compiler_options=compiler_options,
        imports=imports,
    )
    patterns = [re.compile(pattern) for pattern in allow]
    findings = [found for found in report.findings if not _allowed(found, patterns)]
    problems = list(_grouped(findings))
    if one_graph and not report.is_one_graph:
        problems += _why_several(report)
    if problems:
        rule = "be one CUDA graph" if one_graph else "run as CUDA graphs without a wait"
        name = getattr(fn, "__name__", "the step")
        raise AssertionError(
            f"assert_graph_safe: {name} must {rule}; got, for {report.target}:\n"
            + "\n".join(f"  {problem}" for problem in problems)
        )
    return report


def _allowed(finding: Finding, patterns: Sequence[re.Pattern[str]]) -> bool:
    op = finding.operation
    texts = (op.instruction, op.op_name, op.target, op.kind)
    return any(pattern.search(text) for pattern in patterns for text in texts)


def _grouped(findings: Sequence[Finding]) -> list[str]:
    """One paragraph for each reason, naming its operations; what blocks comes first."""
    by_reason: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: not finding.is_blocking):
        key = (finding.verdict, finding.reason, finding.advice)
        by_reason.setdefault(key, []).append(finding)
    paragraphs = []
    for (verdict, reason, advice), group in by_reason.items():
        names = [f"\n    {finding.operation}" for finding in group[:_MAX_NAMED]]
        if len(group) > _MAX_NAMED:
            names.append(f"\n    and {len(group) - _MAX_NAMED} more")
        paragraphs.append(f"{verdict}: {reason} {advice}{''.join(names)}")
    return paragraphs


def _why_several(report: GraphReport) -> list[str]:
    reasons = [f"it is {len(report.graphs)} graphs"]
    for loop in report.loops:
        if loop.graph is None:
            reasons.append(
                f"the host launches each turn of loop {loop.instruction} "
                f"({loop.op_name}). Capture it: XLA_FLAGS="
                "--xla_gpu_enable_command_buffer=+WHILE, and, if its body slices "
                "stacked arrays, --xla_gpu_command_buffer_unroll_loops=true."
            )
    for operation in report.short_runs[:_MAX_NAMED]:
        reasons.append(
            f"{operation} is launched alone, since fewer than {report.min_graph_size} "
            "operations stand together there"
        )
    return reasons
