# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""One GPU through cuda-bindings: memory, one stream, graphs, events, and the kernels of
device_kernels.cu. host_device.py has the same methods on a CPU, for dry runs."""

import ctypes
import functools
from pathlib import Path

import numpy as np
from cuda.bindings import driver, nvrtc
from device_types import CHECKED_ROW, ReadConfig, RowCheck

_KERNELS = Path(__file__).resolve().parent / "device_kernels.cu"
_POINTER, _INT64, _UINT64 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
_CHECK_SUMS = np.dtype(
    [("error", np.float64), ("magnitude", np.float64), ("nonfinite", np.uint64)]
)


class CudaError(RuntimeError):
    """A driver or compiler call that failed."""


def _check(result):
    """The values of a call's result, or CudaError."""
    status, *values = result
    if int(status) != 0:
        raise CudaError(f"CUDA call failed: {status!r}")
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


class CudaDevice:
    """One GPU's primary context, which JAX and PyTorch share, and a stream of ours."""

    dlpack_type = 2

    def __init__(self, ordinal: int = 0):
        _check(driver.cuInit(0))
        self.ordinal = ordinal
        self._device = _check(driver.cuDeviceGet(ordinal))
        self._context = _check(driver.cuDevicePrimaryCtxRetain(self._device))
        _check(driver.cuCtxSetCurrent(self._context))
        non_blocking = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        self._stream = _check(driver.cuStreamCreate(non_blocking))
        self._functions: dict[str, object] = {}
        self._sums = self.alloc(_CHECK_SUMS.itemsize)
        attributes = driver.CUdevice_attribute
        self.num_sms = self._attribute(
            attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        )
        self.l2_bytes = self._attribute(attributes.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)

    def _attribute(self, attribute) -> int:
        return int(_check(driver.cuDeviceGetAttribute(attribute, self._device)))

    @property
    def name(self) -> str:
        text = _check(driver.cuDeviceGetName(128, self._device))
        return text.split(b"\0")[0].decode()

    @property
    def cuda_version(self) -> str:
        version = int(_check(driver.cuDriverGetVersion()))
        return f"{version // 1000}.{version % 1000 // 10}"

    @property
    def stream(self) -> int:
        return int(self._stream)

    @property
    def free_bytes(self) -> int:
        free, _total = _check(driver.cuMemGetInfo())
        return int(free)

    # Memory

    def alloc(self, size_bytes: int) -> int:
        return int(_check(driver.cuMemAlloc(max(int(size_bytes), 16))))

    def free(self, address: int) -> None:
        _check(driver.cuMemFree(address))

    def fill_bytes(self, address: int, byte: int, size_bytes: int) -> None:
        if size_bytes > 0:
            _check(driver.cuMemsetD8Async(address, byte, size_bytes, self._stream))

    def upload(self, address: int, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array)
        if array.nbytes > 0:
            source = array.ctypes.data
            _check(
                driver.cuMemcpyHtoDAsync(address, source, array.nbytes, self._stream)
            )
            self.synchronize()

    def download(self, address: int, shape, dtype) -> np.ndarray:
        array = np.empty(shape, dtype)
        self.synchronize()
        if array.nbytes > 0:
            _check(driver.cuMemcpyDtoH(array.ctypes.data, address, array.nbytes))
        return array

    # Work on the stream

    def synchronize(self) -> None:
        _check(driver.cuStreamSynchronize(self._stream))

    def record(self):
        event = _check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DEFAULT))
        _check(driver.cuEventRecord(event, self._stream))
        return event

    def elapsed_ms(self, start, stop) -> float:
        """Waits for `stop`. Both events are destroyed."""
        _check(driver.cuEventSynchronize(stop))
        elapsed = float(_check(driver.cuEventElapsedTime(start, stop)))
        for event in (start, stop):
            _check(driver.cuEventDestroy(event))
        return elapsed

    def capture(self, issue):
        """A graph, ready to replay, of what `issue()` puts on the stream."""
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _check(driver.cuStreamBeginCapture(self._stream, mode))
        try:
            issue()
        except BaseException:
            driver.cuStreamEndCapture(self._stream)
            raise
        return self.instantiate(_check(driver.cuStreamEndCapture(self._stream)))

    def instantiate(self, graph):
        return _check(driver.cuGraphInstantiate(graph, 0))

    def replay(self, graph) -> None:
        _check(driver.cuGraphLaunch(graph, self._stream))

    def release(self, graph) -> None:
        _check(driver.cuGraphExecDestroy(graph))

    # Kernels

    @functools.cached_property
    def _module(self):
        attributes = driver.CUdevice_attribute
        major = self._attribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._attribute(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        return _check(driver.cuModuleLoadData(compile_kernels(major * 10 + minor)))

    def _function(self, name: str):
        if name not in self._functions:
            found = driver.cuModuleGetFunction(self._module, name.encode())
            self._functions[name] = _check(found)
        return self._functions[name]

    def _launch(self, name: str, grid: tuple[int, int], threads: int, *args) -> None:
        """args: pairs of a value and its ctypes type."""
        values, types = zip(*args, strict=True)
        _check(
            driver.cuLaunchKernel(
                self._function(name),
                *grid,
                1,
                threads,
                1,
                1,
                0,
                self._stream,
                (values, types),
                0,
            )
        )

    def fill_normal(self, address: int, count: int, dtype: str, seed: int) -> None:
        grid = (self.num_sms * 16, 1)
        args = ((address, _POINTER), (count, _INT64), (seed, _UINT64))
        self._launch(f"fill_normal_{dtype}", grid, 256, *args)

    def read(self, config: ReadConfig, address: int, size_bytes: int) -> None:
        """Reads size_bytes, rounded down to 16, and keeps nothing."""
        grid = (self.num_sms * config.blocks_per_sm, 1)
        args = (
            (address, _POINTER),
            (size_bytes // 16, _INT64),
            (self._sums, _POINTER),
        )
        self._launch(f"stream_read_{config.unroll}", grid, config.threads, *args)

    def rel_err(self, a: int, b: int, out: int, dtype: str, check: RowCheck) -> float:
        """||out - truth|| / ||truth|| over the checked rows; NaN if any is not finite.

        The truth is summed in float64 from the operands as they are.
        """
        rows = np.ascontiguousarray(check.rows, CHECKED_ROW)
        rows_at = self.alloc(rows.nbytes)
        self.upload(rows_at, rows)
        self.fill_bytes(self._sums, 0, _CHECK_SUMS.itemsize)
        grid = (len(rows), -(-check.num_columns // 256))
        self._launch(
            f"check_rows_{dtype}",
            grid,
            256,
            *((address, _POINTER) for address in (a, b, out, rows_at, self._sums)),
            (check.num_columns, _INT64),
            (check.a_stride, _INT64),
            (check.b_row_stride, _INT64),
            (check.b_column_stride, _INT64),
        )
        sums = self.download(self._sums, (), _CHECK_SUMS)
        self.free(rows_at)
        if sums["nonfinite"]:
            return float("nan")
        return float(np.sqrt(sums["error"] / max(sums["magnitude"], 1e-300)))

    def count_nonfinite(self, address: int, count: int, dtype: str) -> int:
        self.fill_bytes(self._sums, 0, _CHECK_SUMS.itemsize)
        grid = (self.num_sms * 16, 1)
        args = ((address, _POINTER), (count, _INT64), (self._sums, _POINTER))
        self._launch(f"count_nonfinite_{dtype}", grid, 256, *args)
        return int(self.download(self._sums, (), _CHECK_SUMS)["nonfinite"])


def compile_kernels(arch: int) -> bytes:
    """The cubin of device_kernels.cu for a compute capability of major * 10 + minor."""
    source = _KERNELS.read_bytes()
    program = _check(
        nvrtc.nvrtcCreateProgram(source, _KERNELS.name.encode(), 0, [], [])
    )
    options = [f"--gpu-architecture=sm_{arch}".encode(), b"--std=c++17"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status[0]) != 0:
        log = b" " * _check(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise CudaError(f"{_KERNELS.name} does not compile: {log.decode()}")
    cubin = b" " * _check(nvrtc.nvrtcGetCUBINSize(program))
    _check(nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin
