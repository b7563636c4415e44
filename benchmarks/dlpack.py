# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Shows memory of a benchmark device to JAX and PyTorch, without a copy."""

import ctypes
import math

_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _DType(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ManagedTensor))
_ManagedTensor._fields_ = (
    ("tensor", _Tensor),
    ("manager", ctypes.c_void_p),
    ("deleter", _Deleter),
)

# The memory is the device's and outlives every importer, so deleting does nothing. The
# descriptions stay as long: importers may read shape and strides at any time.
_delete_nothing = _Deleter(lambda _tensor: None)
_exported: list = []

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Exported:
    """A C-contiguous array at an address, for jax.dlpack and torch.from_dlpack.

    Args:
      device: a CudaDevice or HostDevice that has the memory, for as long as anyone
        uses it.
      address: of the first element.
      shape: in elements.
      dtype: a name such as "bfloat16" or "int32".
    """

    def __init__(self, device, address: int, shape: tuple[int, ...], dtype: str):
        self._place = (device.dlpack_type, device.ordinal)
        self._shape = tuple(shape)
        self._address = address
        kind = dtype.rstrip("0123456789")
        self._dtype = (_KINDS[kind], int(dtype[len(kind) :]), 1)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._place

    def __dlpack__(self, **_options):
        rank = len(self._shape)
        strides = [math.prod(self._shape[i + 1 :]) for i in range(rank)]
        axes = ctypes.c_int64 * rank
        shape_c, strides_c = axes(*self._shape), axes(*strides)
        pointer = ctypes.POINTER(ctypes.c_int64)
        tensor = _Tensor(
            self._address,
            _Device(*self._place),
            rank,
            _DType(*self._dtype),
            ctypes.cast(shape_c, pointer),
            ctypes.cast(strides_c, pointer),
            0,
        )
        managed = _ManagedTensor(tensor, None, _delete_nothing)
        _exported.append((shape_c, strides_c, managed))
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)
