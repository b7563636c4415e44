# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Operands at any address between guards of NaN, for the kernels on a raw stream.

On a CPU a stand-in computes at the same addresses: only to rehearse the tests.
"""

import ctypes

import jax
import numpy as np
from support.platforms import is_cuda

import graphsafe_gg as gg
from graphsafe_gg import raw
from graphsafe_gg.raw import products
from graphsafe_gg.testing import reference_drhs, reference_grouped_gemm

_GUARD_BYTES = 4096
_LEGACY_STREAM = 0


class Guarded:
    """An array on the device, `offset` elements past an aligned address.

    All memory around it, and its own if `data` is None, reads as NaN in any type.
    """

    def __init__(
        self, device, shape, dtype, offset: int, data: np.ndarray | None = None
    ):
        dtype = np.dtype(dtype)
        self._start = _GUARD_BYTES + offset * dtype.itemsize
        size_bytes = int(np.prod(shape)) * dtype.itemsize
        host = np.full(self._start + size_bytes + _GUARD_BYTES, 0xFF, np.uint8)
        if data is not None:
            host[self._start :][:size_bytes] = np.frombuffer(data.tobytes(), np.uint8)
        self._end = self._start + size_bytes
        self._buffer = jax.block_until_ready(jax.device_put(host, device))
        address = self._buffer.unsafe_buffer_pointer() + self._start
        self.array = raw.DeviceArray(address, shape, dtype, device.id)

    def read(self) -> np.ndarray:
        """The array's content, once; fails if a guard has changed."""
        host = np.asarray(self._buffer)
        for guard in (host[: self._start], host[self._end :]):
            assert (guard == 0xFF).all(), "written outside the result"
        content = host[self._start : self._end].tobytes()
        return np.frombuffer(content, self.array.dtype).reshape(self.array.shape)


def launch(
    device, is_drhs: bool, arrays, *, transpose_rhs: bool = False
) -> gg.GroupSizesError | None:
    """out = first x second on the legacy stream; waits, returns a recorded error."""
    options = {} if is_drhs else {"transpose_rhs": transpose_rhs}
    if not is_cuda(device):
        return _stand_in(is_drhs, arrays, **options)
    if is_drhs:
        raw.initialize_drhs(*arrays, name="guarded")
        raw.drhs(_LEGACY_STREAM, *arrays, name="guarded")
    else:
        raw.initialize_grouped_gemm(*arrays, **options, name="guarded")
        raw.grouped_gemm(_LEGACY_STREAM, *arrays, **options, name="guarded")
    try:
        gg.check()
    except gg.GroupSizesError as error:
        return error
    return None


def _stand_in(is_drhs, arrays, **options) -> gg.GroupSizesError | None:
    if is_drhs:
        products._drhs_call(*arrays, None)
    else:
        products._grouped_gemm_call(*arrays, options["transpose_rhs"], None)
    first, second, sizes, out = (_view(array) for array in arrays)
    rows, cut = len(first), []
    for size in sizes.tolist():
        cut.append(min(max(size, 0), rows))
        rows -= cut[-1]
    reference = reference_drhs if is_drhs else reference_grouped_gemm
    out[...] = reference(first, second, cut, **options).value.astype(out.dtype)
    return None if cut == sizes.tolist() else gg.GroupSizesError("group_sizes")


def _view(array: raw.DeviceArray) -> np.ndarray:
    memory = (ctypes.c_uint8 * array.size_bytes).from_address(array.address)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)
