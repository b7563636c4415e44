# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""How a plain sharded jit partitions a product: k and n, nothing else.

In a program for several devices whose mesh axes XLA places (not inside shard_map), the
lowering emits a call that no handler serves, with a rule for Shardy. XLA's partitioner
then asks `_partition` for the call of one device. Nothing is keyed on this process: the
call's own attributes say all, so that caches and other processes work.
"""

import functools
from typing import NamedTuple, NoReturn

import numpy as np
from jax._src import xla_bridge
from jax.interpreters.mlir import ir
from jaxlib import xla_client

from graphsafe_gg import _ffi
from graphsafe_gg._errors import message

# Shardy's names of factors, in order.
_FACTORS = "ijklmnopqrstuvwxyz"
_ELEMENTS = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
}


def is_partitioned(axis_context) -> bool:
    """Whether XLA will partition what is lowered here."""
    manual = getattr(axis_context, "manual_axes", None)
    if manual is not None:
        return set(manual) != set(axis_context.mesh.axis_names)
    return getattr(axis_context, "num_devices", 1) > 1


def mark(call, transpose_rhs: bool) -> None:
    """Leaves a custom call to the partitioner."""
    target = ir.StringAttr(call.attributes["call_target_name"]).value
    call.attributes["call_target_name"] = ir.StringAttr.get(_ffi.partitioned(target))
    ranks = [ir.RankedTensorType(operand.type).rank for operand in call.operands]
    axes = _axes(target, transpose_rhs, ranks)
    call.attributes["sdy.sharding_rule"] = ir.Attribute.parse(_shardy_rule(axes, call))


class _Axes(NamedTuple):
    """Names of the axes of operands and result. m, k, n are themselves; any other
    letter stands for an axis that is not partitioned."""

    operands: tuple[str, ...]
    result: str


def _axes(target: str, transpose_rhs: bool, ranks) -> _Axes:
    if "_drhs_" in target:
        return _Axes(("mk", "mn", *_rest(ranks[2:])), "gkn")
    weights = "gnk" if transpose_rhs else "gkn"
    stack = "l" if ranks[1] == 4 else ""
    return _Axes(("mk", stack + weights, *_rest(ranks[2:])), "mn")


def _axes_of_call(target: str, config: str, shapes) -> _Axes:
    ranks = [len(shape.dimensions()) for shape in shapes]
    return _axes(target, "transpose_rhs = true" in config, ranks)


def _rest(ranks) -> list[str]:
    """Sizes, ticket, bias and indices: a bias alone has n, and rank 2 or 3."""
    return ["abc"[: rank - 1] + "n" if rank > 1 else "abc"[:rank] for rank in ranks]


def _shardy_rule(axes: _Axes, call) -> str:
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


def _partition(
    target, arg_shapes, arg_shardings, result_shape, result_sharding, config
):
    config = config.decode() if isinstance(config, bytes) else config
    axes = _axes_of_call(target, config, arg_shapes)
    plan = _plan(axes, arg_shapes, arg_shardings, result_shape, result_sharding)
    shardings = [plan.sharding(names) for names in axes.operands]
    result = plan.sharding(axes.result)
    text = _module(
        target,
        config,
        [s.tile(shape) for s, shape in zip(shardings, arg_shapes, strict=True)],
        result.tile(result_shape),
        plan.sum_groups(axes),
    )
    return text.encode(), shardings, result


def _module(target: str, config: str, operands, result, sum_groups) -> str:
    """The call of one device. Sums over a sharded k are float32, rounded once."""
    types = [_tensor(shape) for shape in operands]
    layouts = ", ".join(_layout(shape) for shape in operands)
    names = [f"%arg{i}" for i in range(len(types))]
    own, out = _tensor(result), "%out"
    wide = _tensor(result, "f32") if sum_groups else own
    lines = [
        f'%out = "stablehlo.custom_call"({", ".join(names)}) <{{call_target_name = '
        f'"{target}", api_version = 4 : i32, backend_config = {config}, '
        f"operand_layouts = [{layouts}], result_layouts = [{_layout(result)}]}}> "
        f": ({', '.join(types)}) -> {wide}"
    ]
    if sum_groups:
        shape = f"tensor<{len(sum_groups)}x{len(sum_groups[0])}xi64>"
        lines += [
            '%sum = "stablehlo.all_reduce"(%out) <{channel_handle = '
            "#stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = "
            f"dense<{sum_groups}> : {shape}, use_global_device_ids}}> ({{",
            "^bb0(%a: tensor<f32>, %b: tensor<f32>):",
            "%c = stablehlo.add %a, %b : tensor<f32>",
            "stablehlo.return %c : tensor<f32>",
            f"}}) : ({wide}) -> {wide}",
        ]
        out = "%sum"
        if wide != own:
            lines.append(f"%rounded = stablehlo.convert %sum : ({wide}) -> {own}")
            out = "%rounded"
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    body = "\n".join([*lines, f"return {out} : {own}"])
    return f"module {{\nfunc.func public @main({arguments}) -> {own} {{\n{body}\n}}\n}}"


def _tensor(shape, element: str | None = None) -> str:
    element = element or _ELEMENTS[np.dtype(shape.numpy_dtype()).name]
    return (
        "tensor<" + "".join(f"{size}x" for size in shape.dimensions()) + element + ">"
    )


def _layout(shape) -> str:
    rank = len(shape.dimensions())
    order = list(range(rank))[::-1]
    values = f"dense<{order}>" if rank else "dense<>"
    return f"{values} : tensor<{rank}xindex>"


class _Plan(NamedTuple):
    """Which part of k and of n each device has; None where an axis is whole."""

    num_devices: int
    parts: dict[str, np.ndarray | None]

    def sharding(self, names: str):
        parts = {name: self.parts.get(name) for name in names}
        split = {name: part for name, part in parts.items() if part is not None}
        if not split:
            return xla_client.HloSharding.replicate()
        tiled, part = list(split), np.stack(list(split.values()))
        counts = [int(p.max()) + 1 for p in part]
        order = np.lexsort((np.arange(self.num_devices), *part[::-1]))
        rest = self.num_devices // int(np.prod(counts))
        dims = [counts[tiled.index(name)] if name in tiled else 1 for name in names]
        proto = xla_client.OpSharding()
        proto.type = xla_client.OpSharding.Type.OTHER
        proto.tile_assignment_dimensions = dims + ([rest] if rest > 1 else [])
        proto.tile_assignment_devices = [int(device) for device in order]
        proto.replicate_on_last_tile_dim = rest > 1
        return xla_client.HloSharding.from_proto(proto)

    def sum_groups(self, axes: _Axes) -> list[list[int]]:
        """Devices whose results are added up: those that differ in k alone."""
        k, n = self.parts["k"], self.parts["n"]
        if k is None or "k" in axes.result:
            return []
        n = np.zeros_like(k) if n is None else n
        rank = np.zeros_like(k)
        seen: dict[tuple[int, int], int] = {}
        for device, pair in enumerate(zip(k.tolist(), n.tolist(), strict=True)):
            rank[device] = seen.get(pair, 0)
            seen[pair] = int(rank[device]) + 1
        keys = sorted(set(zip(n.tolist(), rank.tolist(), strict=True)))
        return [np.flatnonzero((n == a) & (rank == b)).tolist() for a, b in keys]


def _plan(axes, arg_shapes, arg_shardings, result_shape, result_sharding) -> _Plan:
    num_devices = _num_devices([*arg_shardings, result_sharding])
    parts: dict[str, np.ndarray | None] = {"k": None, "n": None}
    names = ("lhs", "dout" if axes.operands[1] == "mn" else "rhs")
    for operand, (axis_names, sharding) in enumerate(
        zip(axes.operands, arg_shardings, strict=True)
    ):
        for axis, name in enumerate(axis_names):
            part = _part(sharding, axis, len(axis_names), num_devices)
            if part is None:
                continue
            if name in parts:
                parts[name] = _agreed(name, parts[name], part)
            elif operand < 2:
                _refuse(names[operand], name)
    for axis, name in enumerate(axes.result):
        if name in parts and parts[name] is None:
            parts[name] = _part(result_sharding, axis, len(axes.result), num_devices)
    sizes = dict(zip(axes.result, result_shape.dimensions(), strict=True))
    for names_of, shape in zip(axes.operands[:2], arg_shapes, strict=False):
        sizes |= dict(zip(names_of, shape.dimensions(), strict=True))
    for name, part in parts.items():
        if part is not None and sizes[name] % (int(part.max()) + 1):
            _raise(
                f"{name} = {sizes[name]}", "be a multiple of its shards", part.max() + 1
            )
    _check_independent(parts)
    if parts["k"] is not None and any(n[-1:] == "n" for n in axes.operands[2:]):
        _raise("bias", "not meet a sharded k", "both", "Add it to the result.")
    return _Plan(num_devices, parts)


def _num_devices(shardings) -> int:
    counts = [len(s.tile_assignment_devices()) for s in shardings if s.is_tiled()]
    return max(counts, default=1)


def _part(sharding, axis: int, rank: int, num_devices: int) -> np.ndarray | None:
    """Which part of an axis each device has."""
    if not sharding.is_tiled():
        return None
    dims = list(sharding.tile_assignment_dimensions())
    if dims[axis] == 1:
        return None
    devices = np.array(sharding.tile_assignment_devices()).reshape(dims)
    part = np.empty(num_devices, np.int64)
    along = [-1 if i == axis else 1 for i in range(len(dims))]
    index = np.arange(dims[axis]).reshape(along)
    part[devices.ravel()] = np.broadcast_to(index, dims).ravel()
    return part


def _agreed(name: str, one, other):
    if one is None or np.array_equal(one, other):
        return other
    _raise(
        f"{name} of both operands",
        "be sharded in one way",
        "two",
        "Constrain them to the same mesh axes.",
    )


def _check_independent(parts) -> None:
    """Each part of k must meet each part of n on as many devices."""
    if any(part is None for part in parts.values()):
        return
    pairs, counts = np.unique(
        np.stack(list(parts.values())), axis=1, return_counts=True
    )
    wanted = np.prod([int(part.max()) + 1 for part in parts.values()])
    if pairs.shape[1] != wanted or len(set(counts.tolist())) != 1:
        _raise(
            "k and n",
            "be sharded over different mesh axes",
            "one",
            "Replicate one of them: jax.lax.with_sharding_constraint.",
        )


def check_explicit(operand: str, mesh_axes, names: str) -> None:
    """Refuses explicit mesh axes on axes that are not partitioned, at trace time."""
    for mesh_axis, name in zip(mesh_axes, names, strict=True):
        if mesh_axis is not None:
            _refuse(operand, name)


def _refuse(operand: str, axis: str) -> NoReturn:
    what = {"m": "rows", "g": "groups", "l": "layers"}[axis]
    advice = {
        "m": "Which group a row is in depends on all sizes before it: use "
        "jax.shard_map with the sizes of each shard's own rows.",
        "g": "Use jax.shard_map with group_offset for the experts of each device.",
        "l": "Replicate the layers, or use jax.shard_map.",
    }[axis]
    _raise(f"the {what} of {operand}", "not be sharded under a plain jit", axis, advice)


def _raise(argument: str, rule: str, got, advice: str = "Shard it evenly.") -> NoReturn:
    raise ValueError(message("grouped_gemm", argument, rule, got, advice))


def _infer(target, arg_shapes, arg_shardings, result_shape, config):
    """For GSPMD, where Shardy is off."""
    axes = _axes_of_call(target, str(config), arg_shapes)
    whole = xla_client.HloSharding.replicate()
    plan = _plan(axes, arg_shapes, arg_shardings, result_shape, whole)
    return plan.sharding(axes.result)


def _register() -> None:
    for target in _ffi.product_targets():
        register = functools.partial(
            xla_client.register_custom_call_partitioner,
            _ffi.partitioned(target),
            lambda sharding, *_: sharding,
            functools.partial(_partition, target),
            functools.partial(_infer, target),
            can_side_effecting_have_replicated_sharding=True,
        )
        register()
        xla_bridge.register_plugin_callbacks(lambda c_api, r=register: r(c_api=c_api))


_register()
