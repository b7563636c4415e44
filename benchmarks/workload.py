# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""One case with its operands on a device: what ours and every baseline are given."""

import dataclasses
import math

import numpy as np
import shapes
from device_types import CHECKED_ROW, RowCheck

_MAX_CHECKED_ROWS = 1024
_ALIGNMENT = 256


@dataclasses.dataclass(frozen=True)
class Dims:
    """The call in the terms of its own product: a (m, k) and b give out.

    M-grouped: b is (g, k, n), or (g, n, k) if transposed, and out (m, n).
    Weight gradient: b is (m, n) and out (g, k, n).
    """

    is_drhs: bool
    g: int
    m: int
    k: int
    n: int
    transpose_rhs: bool

    @classmethod
    def of(cls, case: shapes.Case, product: str, layout: str) -> "Dims":
        is_gnk = layout == "gnk"
        g, m, k, n = case.g, case.m, case.k, case.n
        if product == "fwd":
            return cls(False, g, m, k, n, is_gnk)
        if product == "dlhs":
            return cls(False, g, m, n, k, not is_gnk)
        return cls(True, g, m, *((n, k) if is_gnk else (k, n)), False)

    @property
    def a_shape(self) -> tuple[int, ...]:
        return (self.m, self.k)

    @property
    def b_shape(self) -> tuple[int, ...]:
        if self.is_drhs:
            return (self.m, self.n)
        inner = (self.n, self.k) if self.transpose_rhs else (self.k, self.n)
        return (self.g, *inner)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.g, self.k, self.n) if self.is_drhs else (self.m, self.n)


def rotation(sizes: np.ndarray, active_bytes: int, total_bytes: int) -> tuple[int, int]:
    """How many copies of the weights to go round, and the experts between two of them.

    The copies hold at least total_bytes of matrices that are read. They are windows of
    one allocation and share memory, but no matrix that more than one of them reads.
    """
    num_copies = max(2, -(-total_bytes // max(active_bytes, 1)))
    active = np.flatnonzero(sizes)
    distances = set(np.abs(active[:, None] - active).ravel().tolist())
    for shift in range(1, len(sizes)):
        if not any(i * shift in distances for i in range(1, num_copies)):
            return num_copies, shift
    return num_copies, max(len(sizes), 1)


@dataclasses.dataclass
class Workload:
    """Addresses of one case's operands. `copies` are the places of b, at least one."""

    case: shapes.Case
    product: str
    layout: str
    dtype: str
    pattern: str
    sizes: np.ndarray
    dims: Dims
    a: int
    copies: list[int]
    group_sizes: int
    out: int
    owned: list[int]

    @property
    def item_bytes(self) -> int:
        return shapes.ITEM_BYTES[self.dtype]

    @property
    def out_bytes(self) -> int:
        return math.prod(self.dims.out_shape) * self.item_bytes

    @property
    def moved_bytes(self) -> int:
        return shapes.moved_bytes(self.case, self.sizes, self.dtype, self.product)

    @property
    def flops(self) -> int:
        return shapes.flops(self.case, self.sizes)

    def release(self, device) -> None:
        for address in self.owned:
            device.free(address)
        self.owned.clear()


class Pool:
    """One allocation of random normal values that the weights of every case lie in."""

    def __init__(self, device, size_bytes: int, dtype: str):
        self.size_bytes = size_bytes
        self.address = device.alloc(size_bytes)
        count = size_bytes // shapes.ITEM_BYTES[dtype]
        device.fill_normal(self.address, count, dtype, seed=1)
        device.synchronize()


def pool_bytes(
    case: shapes.Case, sizes: np.ndarray, dtype: str, rotated_bytes: int
) -> int:
    """What the case needs of the pool: its weights, and the places of the read."""
    expert = case.k * case.n * shapes.ITEM_BYTES[dtype]
    num_copies, shift = 1, 0
    if rotated_bytes:
        active_bytes = shapes.weight_bytes(case, sizes, dtype)
        num_copies, shift = rotation(sizes, active_bytes, rotated_bytes)
    weights = (case.g + (num_copies - 1) * shift) * expert
    moved = max(shapes.moved_bytes(case, sizes, dtype, p) for p in ("fwd", "drhs"))
    return max(weights, num_copies * _aligned(moved))


def read_places(pool: Pool, workload: Workload) -> list[int]:
    """Where the plain read of as many bytes goes: as many places, none shared."""
    step = _aligned(workload.moved_bytes)
    return [pool.address + i * step for i in range(len(workload.copies))]


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNMENT) * _ALIGNMENT


def make_workload(
    device,
    pool: Pool,
    case: shapes.Case,
    *,
    pattern: str,
    product: str = "fwd",
    layout: str = "gkn",
    dtype: str = "bfloat16",
    rotated_bytes: int = 0,
) -> Workload:
    """Puts the operands of a case on the device. b of a weight gradient is its own.

    With rotated_bytes, there are copies of the weights with that many bytes to read.
    """
    sizes = shapes.group_sizes(case, pattern)
    dims = Dims.of(case, product, layout)
    item = shapes.ITEM_BYTES[dtype]
    owned: list[int] = []

    def allocate(shape: tuple[int, ...], item_bytes: int) -> int:
        owned.append(device.alloc(math.prod(shape) * item_bytes))
        return owned[-1]

    def normal(shape: tuple[int, ...], seed: int) -> int:
        address = allocate(shape, item)
        device.fill_normal(address, math.prod(shape), dtype, seed)
        return address

    copies = [pool.address]
    if dims.is_drhs:
        copies = [normal(dims.b_shape, seed=3)]
    elif rotated_bytes:
        active_bytes = shapes.weight_bytes(case, sizes, dtype)
        num_copies, shift = rotation(sizes, active_bytes, rotated_bytes)
        step = shift * case.k * case.n * item
        copies = [pool.address + i * step for i in range(num_copies)]
    group_sizes = allocate((max(case.g, 1),), 4)
    device.upload(group_sizes, sizes)
    workload = Workload(
        case=case,
        product=product,
        layout=layout,
        dtype=dtype,
        pattern=pattern,
        sizes=sizes,
        dims=dims,
        a=normal(dims.a_shape, seed=2),
        copies=copies,
        group_sizes=group_sizes,
        out=allocate(dims.out_shape, item),
        owned=owned,
    )
    device.synchronize()
    return workload


def row_check(dims: Dims, sizes: np.ndarray) -> RowCheck:
    """Which rows of the result to check, and what each should be.

    Small results are checked whole. Of large ones, 1024 rows that are spread evenly,
    and the first and last row of every group as far as they fit.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if dims.is_drhs:
        index = _spread(dims.g * dims.k, np.arange(dims.g) * dims.k)
        group, column = index // max(dims.k, 1), index % max(dims.k, 1)
        a, b = offsets[group] * dims.k + column, offsets[group] * dims.n
        count, strides = sizes[group], (dims.k, dims.n, 1)
    else:
        index = _spread(dims.m, np.concatenate([offsets[:-1], offsets[1:] - 1]))
        group = np.searchsorted(offsets[1:], index, side="right")
        has_group = group < dims.g
        a = index * dims.k
        b = np.where(has_group, group, 0) * (dims.k * dims.n)
        count = np.where(has_group, dims.k, 0)
        strides = (1, 1, dims.k) if dims.transpose_rhs else (1, dims.n, 1)
    rows = np.zeros(len(index), CHECKED_ROW)
    rows["a"], rows["b"], rows["out"], rows["count"] = a, b, index * dims.n, count
    return RowCheck(rows, dims.n, *strides)


def _spread(num_rows: int, wanted: np.ndarray) -> np.ndarray:
    if num_rows <= _MAX_CHECKED_ROWS:
        return np.arange(num_rows)
    even = np.linspace(0, num_rows - 1, _MAX_CHECKED_ROWS // 2).astype(np.int64)
    wanted = np.unique(wanted[(wanted >= 0) & (wanted < num_rows)])
    step = max(1, -(-len(wanted) // (_MAX_CHECKED_ROWS // 2)))
    return np.unique(np.concatenate([even, wanted[::step]]))
