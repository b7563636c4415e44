# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Argument checks that the operations of this folder share.

Every check runs at trace time and names the operation that the user called.
"""

import operator

import jax
import jax.numpy as jnp

from graphsafe_gg._errors import message

FLOAT_DTYPES = (jnp.bfloat16, jnp.float16, jnp.float32)


def check_rank(op: str, argument: str, array: jax.Array, shape: str) -> None:
    """Raises unless `array` has as many axes as `shape` has words."""
    rank = len(shape.split(", "))
    if array.ndim != rank:
        rule, advice = f"have shape ({shape})", f"Pass rank {rank}."
        raise ValueError(message(op, argument, rule, array.shape, advice))


def check_shape(
    op: str, argument: str, array: jax.Array, expected: tuple[int, ...], to_match: str
) -> None:
    """Raises unless `array` has exactly the shape that other arguments imply."""
    if array.shape != expected:
        rule = f"have shape {expected} to match {to_match}"
        raise ValueError(message(op, argument, rule, array.shape, "Check both shapes."))


def check_float(op: str, argument: str, array: jax.Array) -> None:
    """Raises unless `array` has a float type that the products support."""
    if array.dtype in FLOAT_DTYPES:
        return
    rule = "be bfloat16, float16 or float32"
    text = message(op, argument, rule, array.dtype, "Convert it with astype.")
    if array.dtype == jnp.float64:
        raise NotImplementedError(text)
    raise TypeError(text)


def check_same_dtype(
    op: str, argument: str, array: jax.Array, other_name: str, other: jax.Array
) -> None:
    """Raises unless two operands of a product share their type."""
    if array.dtype != other.dtype:
        rule = f"have the dtype of {other_name}, {other.dtype}"
        advice = "Convert one of them with astype."
        raise TypeError(message(op, argument, rule, array.dtype, advice))


def check_int(op: str, argument: str, array: jax.Array) -> None:
    """Raises unless `array` has an integer type."""
    if not jnp.issubdtype(array.dtype, jnp.integer):
        rule, advice = "have an integer type", "Pass numbers such as int32."
        raise TypeError(message(op, argument, rule, array.dtype, advice))


def check_count(op: str, argument: str, value: object, maximum: int, why: str) -> int:
    """Returns `value` as an int in 1..maximum, or raises."""
    try:
        count = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        advice = "It shapes the program, so it cannot be an array or a float."
        text = message(op, argument, "be a Python int", repr(value), advice)
        raise TypeError(text) from None
    if not 1 <= count <= maximum:
        rule, advice = f"be from 1 to {maximum}, {why}", "Choose one in that range."
        raise ValueError(message(op, argument, rule, count, advice))
    return count
