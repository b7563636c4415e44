# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What the axes of a product's operands are, and the rule that tells Shardy so."""

from typing import NamedTuple

from jax.interpreters.mlir import ir

# Shardy's names of factors, in order.
_FACTORS = "ijklmnopqrstuvwxyz"


class Axes(NamedTuple):
    """Names of the axes of operands and result. m, k, n are themselves; any other
    letter stands for an axis that is not partitioned."""

    operands: tuple[str, ...]
    result: str


def axes_of(target: str, transpose_rhs: bool, ranks) -> Axes:
    if "_drhs_" in target:
        return Axes(("mk", "mn", *_rest(ranks[2:])), "gkn")
    weights = "gnk" if transpose_rhs else "gkn"
    stack = "l" if ranks[1] == 4 else ""
    return Axes(("mk", stack + weights, *_rest(ranks[2:])), "mn")


def axes_of_call(target: str, config: str, shapes) -> Axes:
    ranks = [len(shape.dimensions()) for shape in shapes]
    return axes_of(target, "transpose_rhs = true" in config, ranks)


def _rest(ranks) -> list[str]:
    """Sizes, ticket, bias and indices: a bias alone has n, and rank 2 or 3."""
    return ["abc"[: rank - 1] + "n" if rank > 1 else "abc"[:rank] for rank in ranks]


def shardy_rule(axes: Axes, call) -> str:
    sizes, mappings = {}, []
    groups = (axes.operands, call.operands), ((axes.result,), call.results)
    for names, values in groups:
        parts = []
        for which, (name, value) in enumerate(zip(names, values, strict=True)):
            shape = ir.RankedTensorType(value.type).shape
            letters = []
            for axis, size in zip(name, shape, strict=True):
                letter = axis if axis in "mkn" else f"{axis}{which}"
                factor = (_FACTORS[len(sizes)], size)
                letters.append(sizes.setdefault(letter, factor)[0])
            parts.append("[" + ", ".join(letters) + "]")
        mappings.append("(" + ", ".join(parts) + ")")
    factors = ", ".join(f"{factor}={size}" for factor, size in sizes.values())
    reduction = ""
    if "k" not in axes.result:
        reduction = f" reduction={{{sizes['k'][0]}}}"
    return (
        f"#sdy.op_sharding_rule<{mappings[0]}->{mappings[1]} {{{factors}}}"
        f"{reduction}, custom>"
    )
