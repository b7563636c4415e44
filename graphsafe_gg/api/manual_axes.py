# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Manual mesh axes: inside shard_map a type says over which axes a value varies."""

import jax
from jax.sharding import PartitionSpec


def align(*operands: jax.Array) -> tuple[jax.Array, ...]:
    """The operands, each varying over every axis that one of them varies over.

    The gradient of an operand that did not vary, such as replicated weights, is then
    summed over the devices.
    """
    all_axes = frozenset().union(*(_axes(jax.typeof(x)) for x in operands))
    return tuple(_vary(x, all_axes - _axes(jax.typeof(x))) for x in operands)


def like(operand: jax.core.ShapedArray, shape, dtype) -> jax.core.ShapedArray:
    """The type of a result that varies as the operand does."""
    sharding = operand.sharding.update(spec=PartitionSpec(*(None,) * len(shape)))
    return jax.core.ShapedArray(
        shape,
        dtype,
        sharding=sharding,
        manual_axis_type=operand.manual_axis_type,
    )


def _axes(aval: jax.core.ShapedArray) -> frozenset:
    return aval.manual_axis_type.varying


def _vary(x: jax.Array, axes: frozenset) -> jax.Array:
    return jax.lax.pcast(x, tuple(sorted(axes, key=str)), to="varying") if axes else x
