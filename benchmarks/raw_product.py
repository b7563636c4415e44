# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of graphsafe_gg.raw on a workload's memory, for CUDA graphs.

The package is imported by the calls alone: run_gpu.py installs it first.
"""

from workload import Workload


def launcher(
    device,
    load: Workload,
    *,
    config: str = "",
    starts_early: bool = False,
):
    """Puts call i of ours on the device's stream. Loads the kernel now."""
    if device.dlpack_type == 1:
        return device.grouped_gemm_launcher(load)
    from graphsafe_gg import raw

    a, copies, sizes, out = _raw_operands(device, load)
    if load.dims.is_drhs:
        raw.initialize_drhs(a, copies[0], sizes, out)
        return lambda i: raw.drhs(device.stream, a, copies[0], sizes, out)
    options = {"transpose_rhs": load.dims.transpose_rhs, "config": config}
    raw.initialize_grouped_gemm(a, copies[0], sizes, out, **options)
    options["starts_early"] = starts_early
    return lambda i: raw.grouped_gemm(
        device.stream, a, copies[i % len(copies)], sizes, out, **options
    )


def config_names(device, load: Workload) -> list[str]:
    """The kernels that can compute the product, where there is a choice."""
    if device.dlpack_type == 1 or load.dims.is_drhs:
        return []
    from graphsafe_gg import raw

    a, copies, sizes, out = _raw_operands(device, load)
    transpose_rhs = load.dims.transpose_rhs
    return raw.grouped_gemm_configs(
        a, copies[0], sizes, out, transpose_rhs=transpose_rhs
    )


def _raw_operands(device, load: Workload):
    from graphsafe_gg import raw

    dims = load.dims

    def array(address: int, shape: tuple[int, ...], dtype: str) -> raw.DeviceArray:
        return raw.DeviceArray(address, shape, dtype, device.ordinal)

    a = array(load.a, dims.a_shape, load.dtype)
    copies = [array(address, dims.b_shape, load.dtype) for address in load.copies]
    sizes = array(load.group_sizes, (dims.g,), "int32")
    out = array(load.out, dims.out_shape, load.dtype)
    return a, copies, sizes, out
