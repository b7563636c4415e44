# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The products on a raw stream. The launch is the one that XLA's handlers make."""

from typing import Any, NamedTuple

import numpy as np

from graphsafe_gg import _ffi
from graphsafe_gg._errors import message
from graphsafe_gg.api import validation
from graphsafe_gg.api.call_site import call_site
from graphsafe_gg.raw.device_array import DeviceArray, as_device_array
from graphsafe_gg.raw.stream import stream_address


class _Index(NamedTuple):
    """A group_offset or layer: the address that holds it, or its value."""

    address: int = 0
    value: int = 0
    dtype: str = "int64"


class _Call(NamedTuple):
    device: int
    problem: Any
    addresses: tuple[int, int, int, int]
    bias: int
    group_offset: _Index
    layer: _Index
    config: str
    site: int


def initialize_grouped_gemm(
    lhs,
    rhs,
    group_sizes,
    out,
    *,
    transpose_rhs: bool = False,
    bias=None,
    group_offset=None,
    layer=None,
    config: str = "",
    name: str | None = None,
) -> None:
    """Loads what `grouped_gemm` needs for operands of these shapes and dtypes.

    Call it once, outside any capture. Addresses and indices play no part.
    """
    options = (transpose_rhs, name, bias, group_offset, layer, config)
    _initialize(_grouped_gemm_call(lhs, rhs, group_sizes, out, *options))


def grouped_gemm_configs(
    lhs,
    rhs,
    group_sizes,
    out,
    *,
    transpose_rhs: bool = False,
    bias=None,
    group_offset=None,
    layer=None,
) -> list[str]:
    """The kernels that can compute this product on lhs's GPU, best guess first.

    Each may be the `config` of `grouped_gemm`, to time them; results are the same.
    Those with `wgmmat` in their names are experimental: no GPU tests on record.
    """
    options = (transpose_rhs, None, bias, group_offset, layer)
    call = _grouped_gemm_call(lhs, rhs, group_sizes, out, *options)
    return _ffi.raw_configs(call.device, call.problem)


def grouped_gemm(
    stream,
    lhs,
    rhs,
    group_sizes,
    out,
    *,
    transpose_rhs: bool = False,
    bias=None,
    group_offset=None,
    layer=None,
    config: str = "",
    starts_early: bool = False,
    name: str | None = None,
) -> None:
    """Launches ``out[r] = lhs[r] @ rhs[group of r] + bias[group of r]`` on the caller's
    stream.

    One kernel launch: nothing is allocated, waited for or read on the host, so the
    stream may be capturing. Bad sizes are cut and recorded as in mode "device".

    Args:
      stream: an address, or an object with ``__cuda_stream__``.
      lhs, rhs, group_sizes: as for `graphsafe_gg.grouped_gemm`: DeviceArray, or objects
        that `as_device_array` takes.
      out: (m, n), written whole. bfloat16, float16 or float32.
      transpose_rhs: rhs is (g, n, k).
      bias: (g, n), lhs's dtype, on the device.
      group_offset: rhs and bias hold the groups from this one on of those that
        group_sizes counts. A Python or NumPy integer is fixed in the launch; an integer
        array on the device, scalar or (1,), is read by the kernel, at each replay anew.
      layer: rhs is (layers, g, k, n) or (layers, g, n, k), bias (layers, g, n), and
        this one counts. An integer or an array, as group_offset.
      config: the kernel, of `grouped_gemm_configs`; chosen by the shapes if empty.
      starts_early: the kernel may start while the one before it on the stream ends, if
        that one allows it, as a kernel launched in this way does (programmatic
        dependent launch, on compute capability 9.0; without effect elsewhere). Until
        that one has ended, it reads weights alone, to bring them closer: what counts is
        what they hold by then. Experimental: no GPU tests on record.
      name: names the call site in errors.

    Raises:
      ValueError, TypeError: operands that do not fit.
      NotImplementedError: no kernel for these types on this GPU.
      RuntimeError: `initialize_grouped_gemm` never ran for such operands, or CUDA
        failed.

    A group_offset or layer on the device that is out of range is recorded as in mode
    "device": groups that do not exist have no rows, and a layer that does not, zeros.
    """
    options = (transpose_rhs, name, bias, group_offset, layer, config)
    call = _grouped_gemm_call(lhs, rhs, group_sizes, out, *options)
    _launch(stream, call, starts_early)


def initialize_drhs(
    lhs, dout, group_sizes, out, *, group_offset=None, name: str | None = None
) -> None:
    """Loads what `drhs` needs for operands of these shapes and dtypes."""
    _initialize(_drhs_call(lhs, dout, group_sizes, out, name, group_offset))


def drhs(
    stream, lhs, dout, group_sizes, out, *, group_offset=None, name: str | None = None
) -> None:
    """Launches ``out[i] = lhs[rows of i].T @ dout[rows of i]``, the weight gradient.

    lhs (m, k), dout (m, n), group_sizes (g,), out (g, k, n), written whole. With
    group_offset, out has the groups from this one on of those that group_sizes counts.
    The rest is as for `grouped_gemm`.
    """
    _launch(stream, _drhs_call(lhs, dout, group_sizes, out, name, group_offset))


def _grouped_gemm_call(
    lhs,
    rhs,
    group_sizes,
    out,
    transpose_rhs,
    name,
    bias=None,
    group_offset=None,
    layer=None,
    config="",
) -> _Call:
    op = "raw.grouped_gemm"
    arrays = _resolve(lhs=lhs, rhs=rhs, group_sizes=group_sizes, out=out)
    lhs, rhs, group_sizes, out = arrays
    validation.check_operands(
        op,
        lhs,
        rhs,
        group_sizes,
        transpose_rhs,
        has_layers=layer is not None,
        has_offset=group_offset is not None,
    )
    validation.check_dtypes(op, lhs, rhs, group_sizes)
    if bias is not None:
        bias = _on_device("bias", bias, lhs.device)
        validation.check_bias(op, bias, rhs, transpose_rhs)
    num_groups, num_sizes = rhs.shape[-3], group_sizes.shape[0]
    num_layers = 1 if layer is None else rhs.shape[0]
    offset_limit = num_sizes - num_groups
    offset = _index(op, "group_offset", group_offset, offset_limit, lhs.device)
    layer = _index(op, "layer", layer, num_layers - 1, lhs.device)
    m, k = lhs.shape
    n = rhs.shape[-2 if transpose_rhs else -1]
    _check_out(op, out, (m, n))
    problem = _ffi.raw_problem(
        is_drhs=False,
        **_dtypes(lhs, group_sizes, out),
        transpose_rhs=bool(transpose_rhs),
        has_bias=bias is not None,
        num_layers=num_layers,
        num_sizes=num_sizes,
        num_groups=num_groups,
        m=m,
        k=k,
        n=n,
    )
    return _call(name or op, problem, arrays, bias, offset, layer, config)


def _drhs_call(lhs, dout, group_sizes, out, name, group_offset=None) -> _Call:
    op = "raw.drhs"
    arrays = _resolve(lhs=lhs, dout=dout, group_sizes=group_sizes, out=out)
    lhs, dout, group_sizes, out = arrays
    for label, array in (("lhs", lhs), ("dout", dout)):
        if array.ndim != 2:
            raise ValueError(
                message(op, label, "have rank 2", array.shape, "Fold leading axes.")
            )
    if dout.shape[0] != lhs.shape[0]:
        rule = f"have lhs's {lhs.shape[0]} rows"
        raise ValueError(message(op, "dout", rule, dout.shape, "Pass the same rows."))
    validation.check_dtypes(op, lhs, dout, group_sizes, "dout")
    (m, k), n, num_sizes = lhs.shape, dout.shape[1], group_sizes.shape[0]
    num_groups = num_sizes
    if group_offset is not None and out.ndim == 3:
        num_groups = min(out.shape[0], num_sizes)
    offset_limit = num_sizes - num_groups
    offset = _index(op, "group_offset", group_offset, offset_limit, lhs.device)
    _check_out(op, out, (num_groups, k, n))
    problem = _ffi.raw_problem(
        is_drhs=True,
        **_dtypes(lhs, group_sizes, out),
        transpose_rhs=False,
        has_bias=False,
        num_layers=1,
        num_sizes=num_sizes,
        num_groups=num_groups,
        m=m,
        k=k,
        n=n,
    )
    return _call(name or op, problem, arrays, None, offset, _Index())


def _resolve(**operands) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
    device = next((a.device for a in operands.values() if type(a) is DeviceArray), 0)
    first = as_device_array("lhs", operands.pop("lhs"), device)
    b, sizes, out = (_on_device(n, x, first.device) for n, x in operands.items())
    return first, b, sizes, out


def _on_device(label: str, array, device: int) -> DeviceArray:
    array = as_device_array(label, array, device)
    if array.device != device:
        raise ValueError(
            f"raw: {label} must be on lhs's device {device}; got device "
            f"{array.device}. Put all operands on one GPU."
        )
    return array


def _index(op: str, name: str, index, limit: int, device: int) -> _Index:
    if index is None:
        return _Index()
    if _is_on_host(index):
        return _Index(value=validation.as_index(op, name, index, limit).static)
    array = _on_device(name, index, device)
    validation.check_index(op, name, array)
    return _Index(array.address, dtype=array.dtype.name)


def _is_on_host(index) -> bool:
    """Python's and NumPy's numbers; an array of another package may be on a GPU."""
    if isinstance(index, np.ndarray | np.generic):
        return True
    if isinstance(index, DeviceArray) or hasattr(index, "__dlpack__"):
        return False
    return not hasattr(index, "__cuda_array_interface__")


def _check_out(op: str, out: DeviceArray, shape: tuple[int, ...]) -> None:
    if out.shape != shape:
        raise ValueError(
            message(op, "out", f"have shape {shape}", out.shape, "Allocate it so.")
        )
    if out.dtype.name not in ("bfloat16", "float16", "float32"):
        rule = "be bfloat16, float16 or float32"
        raise TypeError(message(op, "out", rule, out.dtype, "Allocate another type."))


def _dtypes(lhs, group_sizes, out) -> dict[str, str]:
    return {
        "dtype": lhs.dtype.name,
        "out_dtype": out.dtype.name,
        "size_dtype": group_sizes.dtype.name,
    }


def _call(name, problem, arrays, bias, group_offset, layer, config: str = "") -> _Call:
    a, b, sizes, out = arrays
    addresses = (a.address, b.address, sizes.address, out.address)
    bias = 0 if bias is None else bias.address
    site = call_site(name) % 2**64
    indices = (group_offset, layer)
    return _Call(a.device, problem, addresses, bias, *indices, config, site)


def _initialize(call: _Call) -> None:
    _ffi.raw_initialize(call.device, call.problem, call.config, call.site)


def _launch(stream, call: _Call, starts_early: bool = False) -> None:
    address = stream_address(stream)
    more = (call.bias, call.group_offset, call.layer, call.config, bool(starts_early))
    _ffi.raw_launch(
        call.device, call.problem, *call.addresses, *more, call.site, address
    )
