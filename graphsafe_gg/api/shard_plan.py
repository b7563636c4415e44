# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Which part of k and n each device has, and which shardings have no plan."""

from typing import NamedTuple, NoReturn

import numpy as np

from graphsafe_gg import _xla_partitioner as xla_partitioner
from graphsafe_gg._errors import message
from graphsafe_gg.api.shard_axes import Axes


class Plan(NamedTuple):
    """Which part of k and of n each device has; None where an axis is whole."""

    num_devices: int
    parts: dict[str, np.ndarray | None]

    def sharding(self, names: str):
        parts = {name: self.parts.get(name) for name in names}
        split = {name: part for name, part in parts.items() if part is not None}
        if not split:
            return xla_partitioner.replicated()
        tiled, part = list(split), np.stack(list(split.values()))
        counts = [int(p.max()) + 1 for p in part]
        order = np.lexsort((np.arange(self.num_devices), *part[::-1]))
        rest = self.num_devices // int(np.prod(counts))
        dims = [counts[tiled.index(name)] if name in tiled else 1 for name in names]
        return xla_partitioner.tiled(
            dims + ([rest] if rest > 1 else []),
            [int(device) for device in order],
            replicate_last=rest > 1,
        )

    def sum_groups(self, axes: Axes) -> list[list[int]]:
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


def make_plan(axes, arg_shapes, arg_shardings, result_shape, result_sharding) -> Plan:
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
    return Plan(num_devices, parts)


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
