# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Operands by address. Nothing here owns memory or calls CUDA."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from graphsafe_gg import _ffi

_DLPACK_CUDA = 2
_DLPACK_TYPES = {
    (0, 8): "int8",
    (0, 16): "int16",
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (1, 16): "uint16",
    (1, 32): "uint32",
    (1, 64): "uint64",
    (2, 16): "float16",
    (2, 32): "float32",
    (2, 64): "float64",
    (4, 16): "bfloat16",
}


@dataclasses.dataclass(frozen=True)
class DeviceArray:
    """A C-contiguous array in device memory that the caller keeps alive.

    Attributes:
      address: of the first element.
      shape: in elements.
      dtype: anything that jax.numpy.dtype takes, "bfloat16" among them.
      device: the CUDA ordinal that the memory is on.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype
    device: int = 0

    def __post_init__(self):
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "dtype", jnp.dtype(self.dtype))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def as_device_array(name: str, array, device: int = 0) -> DeviceArray:
    """Reads address, shape and dtype off an object, without a copy.

    Takes a DeviceArray, an object with ``__dlpack__`` (JAX, PyTorch, CuPy), or one with
    ``__cuda_array_interface__``, which names no device: `device` is taken as its own.
    Exporting may synchronise in the framework that owns the array: do it before a
    capture.

    Raises:
      TypeError: the object offers neither.
      ValueError: it is not C-contiguous or not in CUDA device memory.
    """
    if isinstance(array, DeviceArray):
        return array
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(name, array)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_interface(name, array.__cuda_array_interface__, device)
    raise TypeError(
        f"raw: {name} must be a DeviceArray or have __dlpack__ or "
        f"__cuda_array_interface__; got {type(array).__name__}. Wrap its address in a "
        "DeviceArray."
    )


def _from_dlpack(name: str, array) -> DeviceArray:
    address, shape, strides, type_code, (device_type, ordinal) = _ffi.raw_dlpack(array)
    if device_type != _DLPACK_CUDA:
        raise ValueError(
            f"raw: {name} must be in CUDA device memory; got DLPack device type "
            f"{device_type}. Move it to a GPU."
        )
    _check_contiguous(name, shape, strides)
    return DeviceArray(address, shape, _dtype(name, type_code), ordinal)


def _dtype(name: str, type_code: tuple[int, int]) -> np.dtype:
    if type_code not in _DLPACK_TYPES:
        raise TypeError(
            f"raw: {name} must have a float or integer dtype; got DLPack type "
            f"{type_code}. Cast it."
        )
    return jnp.dtype(_DLPACK_TYPES[type_code])


def _from_interface(name: str, interface: dict, device: int) -> DeviceArray:
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    if (strides := interface.get("strides")) is not None:
        _check_contiguous(name, shape, tuple(s // dtype.itemsize for s in strides))
    return DeviceArray(interface["data"][0], shape, dtype, device)


def _check_contiguous(name: str, shape: tuple, strides: tuple) -> None:
    if 0 in shape:
        return
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            raise ValueError(
                f"raw: {name} must be C-contiguous; got shape {shape} with strides "
                f"{strides}. Copy it first."
            )
        expected *= size
