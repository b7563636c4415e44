# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays that end, or begin, where the GPU's mapped memory does: a read or write beyond
their edge is a fault. Through the driver's virtual memory calls."""

import numpy as np
from cuda.bindings import driver

from graphsafe_gg import raw


def _check(result):
    status, *values = result
    assert int(status) == 0, status
    return values[0] if values else None


class Unmapped:
    """An array with unmapped pages right behind it, or with `at_start` right before."""

    def __init__(self, device, array: np.ndarray, *, at_start: bool = False):
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device.id
        flags = driver.CUmemAllocationGranularity_flags
        granule = int(
            _check(
                driver.cuMemGetAllocationGranularity(
                    properties, flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
                )
            )
        )
        self._mapped_bytes = -(-max(array.nbytes, 1) // granule) * granule
        self._reserved_bytes = self._mapped_bytes + 2 * granule
        self._reserved = int(
            _check(driver.cuMemAddressReserve(self._reserved_bytes, 0, 0, 0))
        )
        self._mapped = self._reserved + granule
        self._handle = _check(driver.cuMemCreate(self._mapped_bytes, properties, 0))
        _check(driver.cuMemMap(self._mapped, self._mapped_bytes, 0, self._handle, 0))
        access = driver.CUmemAccessDesc()
        access.location = properties.location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        _check(driver.cuMemSetAccess(self._mapped, self._mapped_bytes, [access], 1))
        start = 0 if at_start else self._mapped_bytes - array.nbytes
        self._address = self._mapped + start
        host = np.ascontiguousarray(array)
        _check(driver.cuMemcpyHtoD(self._address, host.ctypes.data, host.nbytes))
        self.array = raw.DeviceArray(self._address, array.shape, array.dtype, device.id)

    def read(self) -> np.ndarray:
        host = np.empty(self.array.shape, self.array.dtype)
        _check(driver.cuMemcpyDtoH(host.ctypes.data, self._address, host.nbytes))
        return host

    def free(self) -> None:
        _check(driver.cuCtxSynchronize())
        _check(driver.cuMemUnmap(self._mapped, self._mapped_bytes))
        _check(driver.cuMemRelease(self._handle))
        _check(driver.cuMemAddressFree(self._reserved, self._reserved_bytes))
