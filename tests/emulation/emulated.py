# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Products by the device code on the emulated device, and what they must be."""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from graphsafe_gg import _testing
from graphsafe_gg.testing import Truth, reference_drhs, reference_grouped_gemm

DTYPES = {
    "_bf16": np.dtype(ml_dtypes.bfloat16),
    "_f16": np.dtype(np.float16),
    "_f32": np.dtype(np.float32),
}
# Three times of what is asynchronous by three ways to order warps: all that a seed sets
# besides its random numbers.
SEEDS = range(9)


def seeds_for(kernel: str) -> range:
    """Types of 16 bits are one template: one of them is tried with three."""
    return SEEDS[::4] if "_f16" in kernel else SEEDS


def kernels(*parts: str, without: str = "-") -> list[str]:
    """Symbols of the kernels whose names have all parts."""
    names = [
        name
        for name in _testing.emulated_kernels()
        if without not in name and all(part in name for part in parts)
    ]
    assert names, f"no emulated kernel has {parts}"
    return names


def dtype_of(kernel: str) -> np.dtype:
    return next(dtype for part, dtype in DTYPES.items() if part in kernel)


class Result(NamedTuple):
    out: np.ndarray
    error: tuple[int, int, int, int]  # kind, index, value, limit
    guard_trips: int


class Product:
    """Random operands of one product; rows past the sum of the sizes are NaN.

    Of stacked layers and of groups, only those that `layer` and `group_offset` name
    have weights that are not NaN.
    """

    def __init__(
        self,
        kernel: str,
        sizes,
        *,
        m: int | None = None,
        k: int = 72,
        n: int = 136,
        num_groups: int | None = None,
        group_offset: int = 0,
        num_layers: int = 1,
        layer: int = 0,
        has_bias: bool = False,
    ):
        rng = np.random.default_rng(0)
        dtype = dtype_of(kernel)

        def normal(*shape):
            return rng.standard_normal(shape, np.float32).astype(dtype)

        self.kernel = kernel
        self.sizes = np.asarray(sizes, np.int32)
        self.is_drhs = "_drhs_" in kernel
        total = int(self.sizes.sum())
        m = total if m is None else m
        self.lhs = normal(m, k)
        self.lhs[total:] = np.nan
        self.num_groups = len(sizes) if num_groups is None else num_groups
        self.group_offset, self.num_layers, self.layer = group_offset, num_layers, layer
        self.bias = None
        if self.is_drhs:
            self.rhs = normal(m, n)
            self.rhs[total:] = np.nan
            return
        self.weights = normal(self.num_groups, k, n)
        stored = self.weights.swapaxes(1, 2) if "_gnk" in kernel else self.weights
        self.rhs = self._stack(stored)
        if has_bias:
            self.group_bias = normal(self.num_groups, n)
            self.bias = self._stack(self.group_bias)

    def _stack(self, array):
        layers = np.full((self.num_layers, *array.shape), np.nan, array.dtype)
        if 0 <= self.layer < self.num_layers:
            layers[self.layer] = array
        return layers

    def run(self, sim, *, sizes=None, out_dtype=np.float32, **options) -> Result:
        """What the kernel leaves; the result was NaN before."""
        sizes = self.sizes if sizes is None else np.asarray(sizes)
        (m, k), n = self.lhs.shape, self.shape_of_result[-1]
        out, error, trips = _testing.emulate(
            sim,
            self.kernel,
            lhs=self.lhs.tobytes(),
            rhs=self.rhs.tobytes(),
            group_sizes=sizes.tobytes(),
            bias=None if self.bias is None else self.bias.tobytes(),
            out_bytes=int(np.prod(self.shape_of_result)) * np.dtype(out_dtype).itemsize,
            size_type=sizes.dtype.name,
            out_dtype=np.dtype(out_dtype).name,
            m=m,
            k=k,
            n=n,
            num_sizes=len(sizes),
            num_groups=self.num_groups,
            num_layers=self.num_layers,
            group_offset=self.group_offset,
            layer=self.layer,
            **options,
        )
        out = np.frombuffer(out, out_dtype).reshape(self.shape_of_result)
        return Result(out, error, trips)

    @property
    def shape_of_result(self) -> tuple[int, ...]:
        if self.is_drhs:
            return (self.num_groups, self.lhs.shape[1], self.rhs.shape[1])
        return (self.lhs.shape[0], self.weights.shape[2])

    def truth(self, sizes=None) -> Truth:
        """For sizes that are legal, in float64; rows of no local group are zeros."""
        sizes = self.sizes if sizes is None else np.asarray(sizes)
        first = self.group_offset
        local = slice(first, first + self.num_groups)
        if self.is_drhs:
            every = reference_drhs(self.lhs, self.rhs, sizes)
            return Truth(*(part[local] for part in every))
        weights: Any = np.zeros(
            (len(sizes), *self.weights.shape[1:]), self.weights.dtype
        )
        weights[local] = self.weights
        truth = reference_grouped_gemm(self.lhs, weights, sizes)
        if self.bias is None:
            return truth
        bias = np.zeros((len(sizes), weights.shape[2]))
        bias[local] = self.group_bias
        rows = np.repeat(bias, sizes, axis=0)
        rows = np.pad(rows, [(0, len(self.lhs) - len(rows)), (0, 0)])
        return Truth(
            truth.value + rows, truth.magnitude + np.abs(rows), truth.num_terms + 1
        )
