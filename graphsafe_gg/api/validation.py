# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that need only shapes and types, made at trace time."""

import jax
import jax.numpy as jnp
import numpy as np

from graphsafe_gg._errors import message
from graphsafe_gg.api.operands import Index

MODES = ("auto", "sync", "device", "async")
_FLOATS = ("bfloat16", "float16", "float32")


def check_mode(op: str, mode: str) -> None:
    if mode not in MODES:
        choices = ", ".join(repr(choice) for choice in MODES)
        raise ValueError(
            message(op, "mode", f"be one of {choices}", repr(mode), "Use 'auto'.")
        )


def check_operands(
    op: str,
    lhs,
    rhs,
    group_sizes,
    transpose_rhs: bool,
    *,
    has_layers: bool = False,
    has_offset: bool = False,
) -> None:
    _check_rank(op, "lhs", lhs, "(m, k)", 2)
    stack = "layers, " if has_layers else ""
    axes = "g, n, k" if transpose_rhs else "g, k, n"
    _check_rank(op, "rhs", rhs, f"({stack}{axes})", 4 if has_layers else 3)
    _check_rank(op, "group_sizes", group_sizes, "(g,)", 1)
    k = lhs.shape[1]
    if rhs.shape[-1 if transpose_rhs else -2] != k:
        want = f"({stack}g, n, {k})" if transpose_rhs else f"({stack}g, {k}, n)"
        hint = (
            f"lhs has k = {k}; set transpose_rhs if rhs is stored the other way round."
        )
        raise ValueError(
            message(op, "rhs", f"have shape {want} to match lhs", rhs.shape, hint)
        )
    num_groups = rhs.shape[-3]
    if has_offset:
        if group_sizes.shape[0] < num_groups:
            rule = f"have an entry for every group, at least the {num_groups} of rhs"
            advice = "With group_offset, count the rows of all groups, not of rhs's."
            got = f"shape {group_sizes.shape}"
            raise ValueError(message(op, "group_sizes", rule, got, advice))
    elif group_sizes.shape[0] != num_groups:
        raise ValueError(
            message(
                op,
                "group_sizes",
                f"have one entry for each of the {num_groups} groups of rhs",
                f"shape {group_sizes.shape}",
                "Count the rows of every group, empty ones included.",
            )
        )


def check_bias(op: str, bias, rhs, transpose_rhs: bool) -> None:
    want = (*rhs.shape[:-2], rhs.shape[-2 if transpose_rhs else -1])
    if bias.shape != want:
        advice = "Pass one row for each matrix of rhs."
        rule = f"have shape {want} to match rhs"
        raise ValueError(message(op, "bias", rule, bias.shape, advice))
    if bias.dtype != rhs.dtype:
        rule = f"have lhs's dtype {rhs.dtype}"
        raise TypeError(message(op, "bias", rule, bias.dtype, "Cast it."))


def as_index(op: str, name: str, index, limit: int) -> Index:
    """An integer of [0, limit], or a scalar array of integers."""
    is_traced = isinstance(index, jax.Array) or hasattr(index, "__jax_array__")
    array = jnp.asarray(index) if is_traced else np.asarray(index)
    check_index(op, name, array)
    if is_traced:
        return Index(traced=array)
    static = int(array.item())
    if not 0 <= static <= limit:
        advice = {
            "layer": "Count layers of the stack from 0.",
            "group_offset": "Pass the number of groups before those that rhs holds.",
        }[name]
        raise ValueError(message(op, name, f"be in [0, {limit}]", static, advice))
    return Index(static)


def check_index(op: str, name: str, array) -> None:
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(
            message(op, name, "have an integer dtype", array.dtype, "Cast it.")
        )
    if array.shape not in ((), (1,)):
        rule, advice = "be a scalar or have shape (1,)", "Pass one integer."
        raise ValueError(message(op, name, rule, f"shape {array.shape}", advice))


def check_dtypes(op: str, lhs, rhs, group_sizes, rhs_name: str = "rhs") -> None:
    _check_float(op, "lhs", lhs.dtype)
    _check_float(op, rhs_name, rhs.dtype)
    if lhs.dtype != rhs.dtype:
        raise TypeError(
            message(
                op,
                rhs_name,
                f"have lhs's dtype {lhs.dtype}",
                rhs.dtype,
                "Cast one of them.",
            )
        )
    check_group_sizes(op, group_sizes)


def check_group_sizes(op: str, group_sizes) -> None:
    _check_rank(op, "group_sizes", group_sizes, "(g,)", 1)
    if not jnp.issubdtype(group_sizes.dtype, jnp.integer):
        raise TypeError(
            message(
                op,
                "group_sizes",
                "have an integer dtype",
                group_sizes.dtype,
                "Count rows in int32, for example with jnp.bincount.",
            )
        )


def result_dtype(op: str, lhs, preferred_element_type) -> np.dtype:
    if preferred_element_type is None:
        return np.dtype(lhs.dtype)
    try:
        dtype = np.dtype(preferred_element_type)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in (*_FLOATS, "float64"):
        raise TypeError(
            message(
                op,
                "preferred_element_type",
                "be bfloat16, float16 or float32",
                preferred_element_type,
                "Cast the result instead.",
            )
        )
    _check_float(op, "preferred_element_type", dtype)
    return dtype


def _check_rank(op: str, name: str, array, axes: str, rank: int) -> None:
    if array.ndim != rank:
        raise ValueError(
            message(op, name, f"have shape {axes}", array.shape, f"Pass rank {rank}.")
        )


def _check_float(op: str, name: str, dtype) -> None:
    if dtype.name == "float64":
        raise NotImplementedError(
            message(
                op,
                name,
                "be bfloat16, float16 or float32",
                dtype,
                "float64 is not built; cast to float32.",
            )
        )
    if dtype.name not in _FLOATS:
        raise TypeError(
            message(op, name, "be bfloat16, float16 or float32", dtype, "Cast it.")
        )
