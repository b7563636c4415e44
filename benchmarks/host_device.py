# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for cuda_device.CudaDevice on a machine without a GPU: the same methods on
host memory, every call done at once. It runs the benchmark's logic; its times mean
nothing."""

import ctypes
import time

import ml_dtypes
import numpy as np
from device_types import ReadConfig, RowCheck
from numpy.lib.stride_tricks import as_strided

DTYPES = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "int32": np.dtype(np.int32),
}


class HostDevice:
    dlpack_type = 1
    name = "dry run"
    cuda_version = "none"
    ordinal = 0
    stream = 0
    num_sms = 2
    l2_bytes = 1 << 20

    def __init__(self):
        self._blocks: dict[int, np.ndarray] = {}
        self._captured: list | None = None

    @property
    def free_bytes(self) -> int:
        return 1 << 30

    def alloc(self, size_bytes: int) -> int:
        block = np.empty(int(size_bytes) + 256, np.uint8)
        address = -(-block.ctypes.data // 256) * 256
        self._blocks[address] = block
        return address

    def free(self, address: int) -> None:
        del self._blocks[address]

    def view(self, address: int, shape, dtype) -> np.ndarray:
        """Memory as an array."""
        dtype = DTYPES[dtype] if isinstance(dtype, str) else np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = (ctypes.c_uint8 * size).from_address(address)
        return np.frombuffer(buffer, dtype).reshape(shape)

    def fill_bytes(self, address: int, byte: int, size_bytes: int) -> None:
        self.view(address, (size_bytes,), np.uint8)[:] = byte

    def upload(self, address: int, array: np.ndarray) -> None:
        self.view(address, array.shape, array.dtype)[...] = array

    def download(self, address: int, shape, dtype) -> np.ndarray:
        return self.view(address, shape, dtype).copy()

    def synchronize(self) -> None:
        pass

    def record(self) -> float:
        return time.perf_counter()

    def elapsed_ms(self, start: float, stop: float) -> float:
        return (stop - start) * 1e3

    def issue(self, work) -> None:
        """Runs work, or keeps it for the replays of the graph being captured."""
        if self._captured is None:
            work()
        else:
            self._captured.append(work)

    def capture(self, issue) -> list:
        self._captured = graph = []
        try:
            issue()
        finally:
            self._captured = None
        return graph

    def replay(self, graph: list) -> None:
        for work in graph:
            work()

    def release(self, graph: list) -> None:
        graph.clear()

    def fill_normal(self, address: int, count: int, dtype: str, seed: int) -> None:
        values = np.random.default_rng(seed).standard_normal(count, np.float32)
        self.view(address, (count,), dtype)[:] = values.astype(DTYPES[dtype])

    def read(self, config: ReadConfig, address: int, size_bytes: int) -> None:
        source = self.view(address, (size_bytes // 16 * 2,), np.int64)
        self.issue(lambda: np.bitwise_xor.reduce(source))

    def rel_err(self, a: int, b: int, out: int, dtype: str, check: RowCheck) -> float:
        error = magnitude = 0.0
        place, weights = None, np.zeros((0, 0))
        for row in check.rows:
            count = int(row["count"])
            if place != (row["b"], count):
                place = (row["b"], count)
                strides = (check.b_row_stride, check.b_column_stride)
                shape = (count, check.num_columns)
                weights = self._widened(b, row["b"], shape, strides, dtype)
            left = self._widened(a, row["a"], (count,), (check.a_stride,), dtype)
            truth = left @ weights
            found = self._widened(out, row["out"], truth.shape, (1,), dtype)
            error += float(np.sum((found - truth) ** 2))
            magnitude += float(np.sum(truth**2))
        return float(np.sqrt(error / max(magnitude, 1e-300)))

    def _widened(self, address: int, start, shape, strides, dtype: str) -> np.ndarray:
        """Elements from `start` on, with strides in elements, as float64."""
        item = DTYPES[dtype].itemsize
        first = self.view(address + int(start) * item, (1,), dtype)
        steps = tuple(stride * item for stride in strides)
        return as_strided(first, shape, steps).astype(np.float64)

    def grouped_gemm_launcher(self, load):
        """What graphsafe_gg.raw does on a GPU, as a NumPy loop."""
        dims = load.dims
        a = self.view(load.a, dims.a_shape, load.dtype)
        copies = [self.view(at, dims.b_shape, load.dtype) for at in load.copies]
        out = self.view(load.out, dims.out_shape, load.dtype)
        ends = np.cumsum(load.sizes)
        starts = ends - load.sizes

        def multiply(b: np.ndarray) -> None:
            out[...] = 0
            for group, (start, end) in enumerate(zip(starts, ends, strict=True)):
                left = a[start:end].astype(np.float32)
                if dims.is_drhs:
                    out[group] = left.T @ b[start:end].astype(np.float32)
                else:
                    weights = b[group].T if dims.transpose_rhs else b[group]
                    out[start:end] = left @ weights.astype(np.float32)

        return lambda i: self.issue(lambda: multiply(copies[i % len(copies)]))

    def count_nonfinite(self, address: int, count: int, dtype: str) -> int:
        values = self.view(address, (count,), dtype).astype(np.float32)
        return int(np.count_nonzero(~np.isfinite(values)))
