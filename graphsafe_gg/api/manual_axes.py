# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Mesh axes in types: manual ones, over which a value inside shard_map varies, and
explicit ones, which shard it."""

import jax
from jax.sharding import PartitionSpec


def align(*operands: jax.Array) -> tuple[jax.Array, ...]:
    """The operands, each varying over every axis that one of them varies over.

    The gradient of an operand that did not vary, such as replicated weights, is then
    summed over the devices.
    """
    all_axes = frozenset().union(*(_axes(jax.typeof(x)) for x in operands))
    return tuple(_vary(x, all_axes - _axes(jax.typeof(x))) for x in operands)


def like(
    operand: jax.core.ShapedArray, shape, dtype, spec: tuple = ()
) -> jax.core.ShapedArray:
    """The type of a result that varies as the operand does. `spec` names its explicit
    mesh axes; none by default."""
    spec = spec or (None,) * len(shape)
    sharding = operand.sharding.update(spec=PartitionSpec(*spec))
    return jax.core.ShapedArray(
        shape,
        dtype,
        sharding=sharding,
        manual_axis_type=operand.manual_axis_type,
    )


def explicit_axes(operand: jax.core.ShapedArray) -> tuple:
    """Which explicit mesh axes shard each axis of the operand, None for none."""
    return tuple(operand.sharding.spec)


def _axes(aval: jax.core.ShapedArray) -> frozenset:
    return aval.manual_axis_type.varying


def _vary(x: jax.Array, axes: frozenset) -> jax.Array:
    return jax.lax.pcast(x, tuple(sorted(axes, key=str)), to="varying") if axes else x
