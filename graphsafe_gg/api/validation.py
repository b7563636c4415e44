# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that need only shapes and types, made at trace time."""

import jax.numpy as jnp
import numpy as np

from graphsafe_gg._errors import message

MODES = ("auto", "sync", "device", "async")
_FLOATS = ("bfloat16", "float16", "float32")


def check_mode(op: str, mode: str) -> None:
    if mode not in MODES:
        choices = ", ".join(repr(choice) for choice in MODES)
        raise ValueError(
            message(op, "mode", f"be one of {choices}", repr(mode), "Use 'auto'.")
        )


def check_operands(op: str, lhs, rhs, group_sizes, transpose_rhs: bool) -> None:
    _check_rank(op, "lhs", lhs, "(m, k)", 2)
    rhs_axes = "(g, n, k)" if transpose_rhs else "(g, k, n)"
    _check_rank(op, "rhs", rhs, rhs_axes, 3)
    _check_rank(op, "group_sizes", group_sizes, "(g,)", 1)
    k = lhs.shape[1]
    if rhs.shape[2 if transpose_rhs else 1] != k:
        want = f"(g, n, {k})" if transpose_rhs else f"(g, {k}, n)"
        hint = (
            f"lhs has k = {k}; set transpose_rhs if rhs is stored the other way round."
        )
        raise ValueError(
            message(op, "rhs", f"have shape {want} to match lhs", rhs.shape, hint)
        )
    if group_sizes.shape[0] != rhs.shape[0]:
        raise ValueError(
            message(
                op,
                "group_sizes",
                f"have one entry for each of the {rhs.shape[0]} groups of rhs",
                f"shape {group_sizes.shape}",
                "Count the rows of every group, empty ones included.",
            )
        )


def check_dtypes(op: str, lhs, rhs, group_sizes) -> None:
    _check_float(op, "lhs", lhs.dtype)
    _check_float(op, "rhs", rhs.dtype)
    if lhs.dtype != rhs.dtype:
        raise TypeError(
            message(
                op,
                "rhs",
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
