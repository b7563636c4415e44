# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""How a plain sharded jit partitions a product: k and n, nothing else.

In a program for several devices whose mesh axes XLA places (not inside shard_map), the
lowering emits a call that no handler serves, with a rule for Shardy. XLA's partitioner
then asks `_partition` for the call of one device. Nothing is keyed on this process: the
call's own attributes say all, so that caches and other processes work.
"""

import functools

from jax.interpreters.mlir import ir

from graphsafe_gg import _ffi
from graphsafe_gg import _xla_partitioner as xla_partitioner
from graphsafe_gg.api.shard_axes import axes_of, axes_of_call, shardy_rule
from graphsafe_gg.api.shard_plan import make_plan
from graphsafe_gg.api.shard_program import program_of_one_device


def is_partitioned(axis_context) -> bool:
    """Whether XLA will partition what is lowered here."""
    manual = getattr(axis_context, "manual_axes", None)
    if manual is not None:
        return set(manual) != set(axis_context.mesh.axis_names)
    return getattr(axis_context, "num_devices", 1) > 1


def mark(call, transpose_rhs: bool) -> None:
    """Leaves a custom call to the partitioner."""
    xla_partitioner.check_available("grouped_gemm")
    target = ir.StringAttr(call.attributes["call_target_name"]).value
    call.attributes["call_target_name"] = ir.StringAttr.get(_ffi.partitioned(target))
    ranks = [ir.RankedTensorType(operand.type).rank for operand in call.operands]
    axes = axes_of(target, transpose_rhs, ranks)
    call.attributes["sdy.sharding_rule"] = ir.Attribute.parse(shardy_rule(axes, call))


def _partition(
    target, arg_shapes, arg_shardings, result_shape, result_sharding, config
):
    config = config.decode() if isinstance(config, bytes) else config
    axes = axes_of_call(target, config, arg_shapes)
    plan = make_plan(axes, arg_shapes, arg_shardings, result_shape, result_sharding)
    shardings = [plan.sharding(names) for names in axes.operands]
    result = plan.sharding(axes.result)
    text = program_of_one_device(
        target,
        config,
        [s.tile(shape) for s, shape in zip(shardings, arg_shapes, strict=True)],
        result.tile(result_shape),
        plan.sum_groups(axes),
    )
    return text.encode(), shardings, result


def _infer(target, arg_shapes, arg_shardings, result_shape, config):
    axes = axes_of_call(target, str(config), arg_shapes)
    whole = xla_partitioner.replicated()
    plan = make_plan(axes, arg_shapes, arg_shardings, result_shape, whole)
    return plan.sharding(axes.result)


for _target in _ffi.product_targets():
    xla_partitioner.register(
        _ffi.partitioned(_target),
        functools.partial(_partition, _target),
        functools.partial(_infer, _target),
    )
