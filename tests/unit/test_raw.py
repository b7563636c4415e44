# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The raw-stream interface without a GPU: operands by address, and what is refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from graphsafe_gg import _ffi, raw
from graphsafe_gg.raw import products
from graphsafe_gg.raw.stream import stream_address


class WithInterface:
    def __init__(self, shape, typestr, strides=None, address=4096):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "data": (address, False),
            "version": 3,
        }


class WithStream:
    def __init__(self, version, address):
        self._pair = (version, address)

    def __cuda_stream__(self):
        return self._pair


NO_OPTIONS = {"transpose_rhs": False, "name": None}


def operands(m=4, k=8, n=16, g=3, dtype="bfloat16", **changes):
    arrays = {
        "lhs": raw.DeviceArray(0x1000, (m, k), dtype),
        "rhs": raw.DeviceArray(0x2000, (g, k, n), dtype),
        "group_sizes": raw.DeviceArray(0x3000, (g,), "int32"),
        "out": raw.DeviceArray(0x4000, (m, n), dtype),
    }
    return {**arrays, **changes}


def test_problem_holds_the_static_facts():
    call = products._grouped_gemm_call(**operands(), transpose_rhs=False, name=None)
    assert repr(call.problem) == "m_grouped gkn bf16->bf16 g=3 m=4 k=8 n=16 sizes=s32"
    assert call.addresses == (0x1000, 0x2000, 0x3000, 0x4000)
    transposed = raw.DeviceArray(0x2000, (3, 16, 8), "bfloat16")
    call = products._grouped_gemm_call(
        **operands(rhs=transposed), transpose_rhs=True, name="site"
    )
    assert "m_grouped gnk" in repr(call.problem)


def test_problem_with_every_operand():
    """An index on the host is a value, one on the device an address and its type."""
    shapes = {
        "rhs": raw.DeviceArray(0x2000, (5, 3, 8, 16), "bfloat16"),
        "group_sizes": raw.DeviceArray(0x3000, (7,), "int32"),
    }
    options = {
        "bias": raw.DeviceArray(0x5000, (5, 3, 16), "bfloat16"),
        "group_offset": np.int8(4),
        "layer": raw.DeviceArray(0x6000, (1,), "uint16"),
    }
    call = products._grouped_gemm_call(**operands(**shapes), **NO_OPTIONS, **options)
    assert repr(call.problem) == (
        "m_grouped gkn bf16->bf16 g=3 of 7 layers=5 bias m=4 k=8 n=16 sizes=s32"
    )
    assert call.bias == 0x5000
    assert call.group_offset == (0, 4, "int64")
    assert call.layer == (0x6000, 0, "uint16")


def test_drhs_problem_of_local_groups():
    arrays = [
        raw.DeviceArray(1, (4, 8), "float16"),
        raw.DeviceArray(2, (4, 16), "float16"),
        raw.DeviceArray(3, (5,), "int32"),
        raw.DeviceArray(4, (3, 8, 16), "float16"),
    ]
    call = products._drhs_call(*arrays, None, 2)
    assert "g=3 of 5" in repr(call.problem)
    with pytest.raises(ValueError, match=r"raw.drhs: group_offset must be in \[0, 2\]"):
        products._drhs_call(*arrays, None, 3)
    with pytest.raises(ValueError, match=r"raw.drhs: out must have shape \(5, 8, 16\)"):
        products._drhs_call(*arrays, None)


def test_drhs_problem_swaps_the_result():
    call = products._drhs_call(
        raw.DeviceArray(1, (4, 8), "float16"),
        raw.DeviceArray(2, (4, 16), "float16"),
        raw.DeviceArray(3, (3,), "uint64"),
        raw.DeviceArray(4, (3, 8, 16), "float32"),
        None,
    )
    assert repr(call.problem) == "k_grouped f16->f32 g=3 m=4 k=8 n=16 sizes=u64"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"bias": raw.DeviceArray(4, (3, 15), "bfloat16")},
            ValueError,
            r"raw.grouped_gemm: bias must have shape \(3, 16\) to match rhs; got",
        ),
        (
            {"bias": raw.DeviceArray(4, (3, 16), "float32")},
            TypeError,
            "raw.grouped_gemm: bias must have lhs's dtype bfloat16; got float32",
        ),
        (
            {"bias": raw.DeviceArray(4, (3, 16), "bfloat16", device=1)},
            ValueError,
            "bias must be on lhs's device 0; got device 1",
        ),
        (
            {"layer": 0},
            ValueError,
            r"raw.grouped_gemm: rhs must have shape \(layers, g, k, n\)",
        ),
        (
            {"group_offset": 1},
            ValueError,
            r"raw.grouped_gemm: group_offset must be in \[0, 0\]; got 1",
        ),
        (
            {"group_offset": 1.0},
            TypeError,
            "raw.grouped_gemm: group_offset must have an integer dtype; got float64",
        ),
        (
            {"group_offset": raw.DeviceArray(4, (2,), "int32")},
            ValueError,
            r"raw.grouped_gemm: group_offset must be a scalar or have shape \(1,\)",
        ),
        (
            {"group_offset": raw.DeviceArray(4, (), "float32")},
            TypeError,
            "raw.grouped_gemm: group_offset must have an integer dtype; got float32",
        ),
        (
            {"group_offset": jnp.int32(0)},
            ValueError,
            "raw: group_offset must be in CUDA device memory",
        ),
    ],
)
def test_options_that_do_not_fit_are_named(options, error, text):
    with pytest.raises(error, match=text):
        raw.grouped_gemm(0, **operands(), **options)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (
            {"out": raw.DeviceArray(4, (4, 15), "bfloat16")},
            ValueError,
            r"raw.grouped_gemm: out must have shape \(4, 16\); got \(4, 15\)",
        ),
        (
            {"rhs": raw.DeviceArray(4, (3, 9, 16), "bfloat16")},
            ValueError,
            "rhs must have shape",
        ),
        (
            {"rhs": raw.DeviceArray(4, (3, 8, 16), "float16")},
            TypeError,
            "rhs must have lhs's dtype bfloat16",
        ),
        (
            {"group_sizes": raw.DeviceArray(4, (3,), "float32")},
            TypeError,
            "group_sizes must have an integer dtype",
        ),
        (
            {"out": raw.DeviceArray(4, (4, 16), "float64")},
            TypeError,
            "out must be bfloat16, float16 or float32; got float64",
        ),
        (
            {"rhs": raw.DeviceArray(4, (3, 8, 16), "bfloat16", device=1)},
            ValueError,
            "rhs must be on lhs's device 0; got device 1",
        ),
        ({"lhs": object()}, TypeError, "lhs must be a DeviceArray or have"),
    ],
)
def test_operands_that_do_not_fit_are_named(changes, error, text):
    with pytest.raises(error, match=text):
        raw.grouped_gemm(0, **operands(**changes))


def test_cuda_array_interface_is_read_without_a_copy():
    array = raw.as_device_array("lhs", WithInterface((2, 3), "<f4"), device=1)
    assert array == raw.DeviceArray(4096, (2, 3), "float32", 1)
    dense = WithInterface((2, 3), "<f4", strides=(12, 4))
    assert raw.as_device_array("lhs", dense).shape == (2, 3)
    with pytest.raises(ValueError, match="lhs must be C-contiguous"):
        raw.as_device_array("lhs", WithInterface((2, 3), "<f4", strides=(4, 8)))


@pytest.mark.parametrize("shape", [(3, 0), (2, 0, 4), (0, 3)])
def test_empty_arrays_are_contiguous_whatever_their_strides(shape):
    array = WithInterface(shape, "<f4", strides=(64,) * len(shape))
    assert raw.as_device_array("lhs", array).shape == shape


def test_dlpack_describes_the_array():
    array = jnp.zeros((2, 3), jnp.bfloat16)
    address, shape, strides, dtype, device = _ffi.raw_dlpack(array)
    assert address == array.unsafe_buffer_pointer()
    assert (shape, strides, dtype, device) == ((2, 3), (3, 1), (4, 16), (1, 0))


@pytest.mark.parametrize("array", [np.zeros((2, 3), np.float32), jnp.zeros((2, 3))])
def test_host_memory_is_refused(array):
    with pytest.raises(ValueError, match="lhs must be in CUDA device memory"):
        raw.as_device_array("lhs", array)


def test_streams_are_addresses_or_speak_the_protocol():
    assert stream_address(77) == 77
    assert stream_address(WithStream(0, 99)) == 99
    with pytest.raises(ValueError, match="version 0 of __cuda_stream__; got 3"):
        stream_address(WithStream(3, 99))
    with pytest.raises(TypeError, match="stream must be an address"):
        stream_address("main")


def test_launch_before_initialize_says_so():
    with pytest.raises(RuntimeError, match="device 255 must be initialized"):
        _ffi.raw_launch(
            255,
            products._grouped_gemm_call(
                **operands(), transpose_rhs=False, name=None
            ).problem,
            1,
            2,
            3,
            4,
            0,
            (0, 0, "int64"),
            (0, 0, "int64"),
            "",
            False,
            0,
            0,
        )


def test_unknown_types_are_value_errors():
    with pytest.raises(ValueError, match="dtype must be bfloat16"):
        _ffi.raw_problem(
            is_drhs=False,
            dtype="float8",
            out_dtype="float32",
            size_dtype="int32",
            transpose_rhs=False,
            has_bias=False,
            num_layers=1,
            num_sizes=1,
            num_groups=1,
            m=1,
            k=1,
            n=1,
        )
