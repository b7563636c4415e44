# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which path each call of a function takes, and why. Nothing is compiled or run."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax

from graphsafe_gg import _config
from graphsafe_gg.api import capabilities, primitives
from graphsafe_gg.api.call_site import call_site_name
from graphsafe_gg.api.capabilities import Capability
from graphsafe_gg.api.operands import unpack

_ON_EXPERIMENTAL = "bias, group_offset and layer have no GPU tests on record"


@dataclasses.dataclass(frozen=True)
class ExplainedCall:
    """One call of the traced function, forward or from a derivative.

    Attributes:
      site: name of the call site.
      problem: product, shape and types, such as "forward bfloat16 -> bfloat16, m = 64,
        k = 2048, n = 1536, 128 groups as (g, k, n)".
      capability: the row of the capability table: mode, path, status and reason.
      notes: what the mode does besides.
    """

    site: str
    problem: str
    capability: Capability
    notes: tuple[str, ...]

    def __str__(self) -> str:
        row = self.capability
        lines = [
            f"{self.site}: {self.problem}",
            f"  mode {row.mode} on {row.platform} {row.architecture}: "
            f"{row.path or 'nothing'}; {row.status}: {row.reason}",
        ]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclasses.dataclass(frozen=True)
class Explanation:
    calls: tuple[ExplainedCall, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls)) or "no grouped call"


def explain(
    fn: Callable, *, platform: str | None = None, compute_capability: int | None = None
) -> Callable[..., Explanation]:
    """Wraps a function so that it tells what its grouped calls would do.

    ``print(gg.explain(step)(*args))``

    Args:
      fn: anything that jax can trace: jitted, differentiated, mapped.
      platform: "cpu" or "cuda"; JAX's default backend if not given.
      compute_capability: of the GPU, such as 90; that of the first GPU here if not
        given, and 90 where there is none.

    Returns:
      A function of fn's arguments, or `jax.ShapeDtypeStruct`s of them, that returns an
      Explanation: one entry for each call of the trace, in order. A call in a loop is
      one entry.

    What XLA makes of the whole step, and where a CUDA graph breaks, tells
    ``testing.assert_graph_safe``; what ran and how often, ``stats()``.
    """
    if platform is None:
        platform = "cuda" if jax.default_backend() in ("gpu", "cuda") else "cpu"
    architecture = _architecture(platform, compute_capability)

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        jaxpr = jax.make_jaxpr(fn)(*args, **kwargs)
        calls = (
            _explained(equation, platform, architecture)
            for equation in _equations(jaxpr.jaxpr)
            if equation.primitive in (primitives.grouped_gemm_p, primitives.drhs_p)
        )
        return Explanation(tuple(calls))

    return explained


def _architecture(platform: str, compute_capability: int | None) -> str:
    if platform == "cpu":
        return "x86-64"
    if compute_capability is None:
        compute_capability = 90
        if jax.default_backend() == "gpu":
            major, minor = jax.devices()[0].compute_capability.split(".")
            compute_capability = int(major) * 10 + int(minor)
    return capabilities.architecture_of(compute_capability)


def _explained(equation, platform: str, architecture: str) -> ExplainedCall:
    params = equation.params
    first, second, sizes = (v.aval for v in equation.invars[:3])
    is_drhs = equation.primitive is primitives.drhs_p
    optional = unpack(params["optional"], equation.invars[3:])
    product = "drhs" if is_drhs else "forward"
    m, k = first.shape
    if is_drhs:
        n, groups, layout = second.shape[1], params["num_groups"], ""
    else:
        is_transposed = params["transpose_rhs"]
        n, groups = second.shape[-2 if is_transposed else -1], second.shape[-3]
        layout = " as (g, n, k)" if is_transposed else " as (g, k, n)"
    if sizes.shape[0] != groups:
        layout = f" of {sizes.shape[0]}{layout}"
    problem = (
        f"{product} {first.dtype} -> {params['out_dtype']}, m = {m}, k = {k}, n = {n}, "
        f"{groups} groups{layout}"
    )
    row = capabilities.capability(
        platform, architecture, str(first.dtype), product, params["mode"]
    )
    if _config.DISABLED:
        path, reason = "jax.lax.ragged_dot", "GG_DISABLE=1"
        row = dataclasses.replace(row, path=path, status="experimental", reason=reason)
        return ExplainedCall(call_site_name(params["site"]), problem, row, ())
    has_more = optional.linear().bits != 0 or optional.bias is not None
    has_more |= params["group_offset"] >= 0 or params.get("layer", -1) >= 0
    if platform == "cuda" and has_more and row.status == "stable":
        row = dataclasses.replace(row, status="experimental", reason=_ON_EXPERIMENTAL)
    notes = tuple(_notes(params, optional, platform, has_more))
    return ExplainedCall(call_site_name(params["site"]), problem, row, notes)


def _notes(params, optional, platform: str, has_more: bool) -> Iterator[str]:
    if platform == "cpu":
        if params["mode"] != "device":
            yield "on a CPU all modes are the same call"
        return
    if params["mode"] == "device":
        yield "no host wait; captured in a CUDA graph"
        return
    yield "waits on the host; splits the CUDA graph"
    if params["mode"] == "async" and optional.ticket is None:
        yield "no copy_group_sizes in front: copies the sizes at the call"
    if has_more:
        yield "no cuBLASLt with bias, group_offset or layer"
    if optional.group_offset is not None or optional.layer is not None:
        yield "waits for the traced group_offset or layer too"


def _equations(jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)
