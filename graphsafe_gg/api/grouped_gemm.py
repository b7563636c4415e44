# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The public operation: validate, choose a path, bind the primitive."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from graphsafe_gg import _config, _runtime
from graphsafe_gg.api import primitives, validation
from graphsafe_gg.api.call_site import call_site
from graphsafe_gg.api.precision import check_precision


def grouped_gemm(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    *,
    mode: str = "auto",
    transpose_rhs: bool = False,
    preferred_element_type: DTypeLike | None = None,
    precision=None,
    name: str | None = None,
) -> jax.Array:
    """Multiplies each group of rows of lhs by its own matrix in rhs.

    ``out[r] = lhs[r] @ rhs[group of r]``; rows at or past ``sum(group_sizes)`` are exact
    zeros, and nothing they hold in lhs reaches any result or gradient.

    Args:
      lhs: (m, k), bfloat16, float16 or float32. The rows of group i follow those of
        group i - 1. Any m >= 0 and any alignment.
      rhs: (g, k, n), or (g, n, k) with ``transpose_rhs``; lhs's dtype.
      group_sizes: (g,), any integer dtype, on the device. May change from one execution,
        and from one replay of a CUDA graph, to the next.
      mode: "device" keeps the sizes on the GPU: one launch, no host wait, capturable.
        "sync" copies them to the host and waits at the call. "auto" takes "device".
        "async" is not built yet. On a CPU all modes are the same call.
      transpose_rhs: rhs is stored as (g, n, k). Nothing is transposed in memory.
      preferred_element_type: dtype of the result; lhs's by default.
      precision: as for ``jax.lax.ragged_dot``. Products are exact in the operands' dtype
        and sums are float32 at every setting; presets that ask for anything else raise.
      name: names the call site in errors; the JAX named scope does not enter it.

    Returns:
      (m, n) in preferred_element_type. Accumulation is float32, rounded once.

    Raises:
      ValueError: ranks, shapes, an unknown mode or precision.
      TypeError: dtypes that differ or are not supported.
      NotImplementedError: float64, a mode or preset that is not built.
      GroupSizesError: an earlier execution of this call site recorded bad sizes.
      jax.errors.JaxRuntimeError: bad sizes seen by the host ("sync", or any mode on a
        CPU), before any launch.

    Under jit, scan, checkpoint: yes. grad and jvp of any order: yes, in lhs and rhs; a
    cotangent wider than the operand is rounded to its dtype first. vmap: raises.
    Sharding: inside shard_map only.

    Graph safety: "device" never reads group_sizes on the host, launches one kernel whose
    shape follows from static facts, and is captured by XLA's command buffers. A negative
    size counts as 0 and a group is cut to the rows that are left; the first such error
    is recorded for ``check()``. "sync" splits the graph.

    Cost: no workspace; one launch for the result and one for each gradient.

    Source: csrc/kernels, design/architecture.md.
    """
    op = "grouped_gemm"
    validation.check_mode(op, mode)
    lhs, rhs, group_sizes = map(jnp.asarray, (lhs, rhs, group_sizes))
    validation.check_operands(op, lhs, rhs, group_sizes, transpose_rhs)
    validation.check_dtypes(op, lhs, rhs, group_sizes)
    out_dtype = validation.result_dtype(op, lhs, preferred_element_type)
    check_precision(op, precision, lhs.dtype)
    site = call_site(name or op)
    _runtime.raise_recorded_errors(site % 2**64)
    return primitives.grouped_gemm_p.bind(
        lhs,
        rhs,
        group_sizes,
        transpose_rhs=bool(transpose_rhs),
        out_dtype=out_dtype,
        mode=_choose_mode(mode),
        site=site,
    )


def _choose_mode(mode: str) -> str:
    if _config.FORCED_MODE:
        return _config.FORCED_MODE
    return "device" if mode == "auto" else mode
