# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The products on a raw stream. The launch is the one that XLA's handlers make."""

from typing import Any, NamedTuple

from graphsafe_gg import _ffi
from graphsafe_gg._errors import message
from graphsafe_gg.api import validation
from graphsafe_gg.api.call_site import call_site
from graphsafe_gg.raw.device_array import DeviceArray, as_device_array
from graphsafe_gg.raw.stream import stream_address


class _Call(NamedTuple):
    device: int
    problem: Any
    addresses: tuple[int, int, int, int]
    site: int


def initialize_grouped_gemm(
    lhs, rhs, group_sizes, out, *, transpose_rhs: bool = False, name: str | None = None
) -> None:
    """Loads what `grouped_gemm` needs for operands of these shapes and dtypes.

    Call it once, outside any capture. Addresses play no part.
    """
    call = _grouped_gemm_call(lhs, rhs, group_sizes, out, transpose_rhs, name)
    _ffi.raw_initialize(call.device, call.problem, call.site)


def grouped_gemm(
    stream,
    lhs,
    rhs,
    group_sizes,
    out,
    *,
    transpose_rhs: bool = False,
    name: str | None = None,
) -> None:
    """Launches ``out[r] = lhs[r] @ rhs[group of r]`` on the caller's stream.

    One kernel launch: nothing is allocated, waited for or read on the host, so the
    stream may be capturing. Bad sizes are cut and recorded as in mode "device".

    Args:
      stream: an address, or an object with ``__cuda_stream__``.
      lhs, rhs, group_sizes: as for `graphsafe_gg.grouped_gemm`: DeviceArray, or objects
        that `as_device_array` takes.
      out: (m, n), written whole. bfloat16, float16 or float32.
      transpose_rhs: rhs is (g, n, k).
      name: names the call site in errors.

    Raises:
      ValueError, TypeError: operands that do not fit.
      NotImplementedError: no kernel for these types on this GPU.
      RuntimeError: `initialize_grouped_gemm` never ran for such operands, or CUDA
        failed.
    """
    call = _grouped_gemm_call(lhs, rhs, group_sizes, out, transpose_rhs, name)
    _launch(stream, call)


def initialize_drhs(lhs, dout, group_sizes, out, *, name: str | None = None) -> None:
    """Loads what `drhs` needs for operands of these shapes and dtypes."""
    call = _drhs_call(lhs, dout, group_sizes, out, name)
    _ffi.raw_initialize(call.device, call.problem, call.site)


def drhs(stream, lhs, dout, group_sizes, out, *, name: str | None = None) -> None:
    """Launches ``out[i] = lhs[rows of i].T @ dout[rows of i]``, the weight gradient.

    lhs (m, k), dout (m, n), group_sizes (g,), out (g, k, n), written whole. The rest is
    as for `grouped_gemm`.
    """
    _launch(stream, _drhs_call(lhs, dout, group_sizes, out, name))


def _grouped_gemm_call(lhs, rhs, group_sizes, out, transpose_rhs, name) -> _Call:
    op = "raw.grouped_gemm"
    arrays = _resolve(lhs=lhs, rhs=rhs, group_sizes=group_sizes, out=out)
    lhs, rhs, group_sizes, out = arrays
    validation.check_operands(op, lhs, rhs, group_sizes, transpose_rhs)
    validation.check_dtypes(op, lhs, rhs, group_sizes)
    m, k = lhs.shape
    n = rhs.shape[1 if transpose_rhs else 2]
    _check_out(op, out, (m, n))
    problem = _problem(False, lhs, out, group_sizes, transpose_rhs, rhs.shape[0], k, n)
    return _call(op if name is None else name, problem, arrays)


def _drhs_call(lhs, dout, group_sizes, out, name) -> _Call:
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
    validation.check_dtypes(op, lhs, dout, group_sizes)
    if group_sizes.ndim != 1:
        raise ValueError(
            message(op, "group_sizes", "have rank 1", group_sizes.shape, "Flatten it.")
        )
    k, n = lhs.shape[1], dout.shape[1]
    _check_out(op, out, (group_sizes.shape[0], k, n))
    problem = _problem(True, lhs, out, group_sizes, False, group_sizes.shape[0], k, n)
    return _call(op if name is None else name, problem, arrays)


def _resolve(**operands) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]:
    device = next((a.device for a in operands.values() if type(a) is DeviceArray), 0)
    a, b, sizes, out = (as_device_array(n, x, device) for n, x in operands.items())
    for label, array in zip(operands, (a, b, sizes, out), strict=True):
        if array.device != a.device:
            raise ValueError(
                f"raw: {label} must be on lhs's device {a.device}; got device "
                f"{array.device}. Put all operands on one GPU."
            )
    return a, b, sizes, out


def _check_out(op: str, out: DeviceArray, shape: tuple[int, ...]) -> None:
    if out.shape != shape:
        raise ValueError(
            message(op, "out", f"have shape {shape}", out.shape, "Allocate it so.")
        )
    if out.dtype.name not in ("bfloat16", "float16", "float32"):
        rule = "be bfloat16, float16 or float32"
        raise TypeError(message(op, "out", rule, out.dtype, "Allocate another type."))


def _problem(is_drhs, lhs, out, group_sizes, transpose_rhs, num_groups, k, n):
    return _ffi.raw_problem(
        is_drhs=is_drhs,
        dtype=lhs.dtype.name,
        out_dtype=out.dtype.name,
        size_dtype=group_sizes.dtype.name,
        transpose_rhs=bool(transpose_rhs),
        num_groups=num_groups,
        m=lhs.shape[0],
        k=k,
        n=n,
    )


def _call(name: str, problem, arrays: tuple[DeviceArray, ...]) -> _Call:
    a, b, sizes, out = arrays
    addresses = (a.address, b.address, sizes.address, out.address)
    return _Call(a.device, problem, addresses, call_site(name) % 2**64)


def _launch(stream, call: _Call) -> None:
    address = stream_address(stream)
    _ffi.raw_launch(call.device, call.problem, *call.addresses, call.site, address)
