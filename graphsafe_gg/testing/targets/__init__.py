# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""GPUs that XLA can compile for without having one: what its compiler wants to know.

The numbers are NVIDIA's: the table of compute capabilities in the CUDA programming
guide, and for each GPU its data sheet (multiprocessors, boost clock, memory, bandwidth)
and what `cudaGetDeviceProperties` reports (L2, usable memory). Field names are those of
XLA's `stream_executor.GpuTargetConfigProto`.
"""

import dataclasses
import os
import pathlib
import re

# Of every capability from 8.0 to 10.0: the programming guide's table.
_THREADS_PER_BLOCK = 1024
_THREADS_PER_WARP = 32
_THREADS_PER_SM = 2048
_REGISTERS_PER_SM = 65536
_STATIC_SHARED_BYTES = 48 * 1024
_RESERVED_SHARED_BYTES = 1024  # of each block, by the driver
_GRID_LIMIT = (2**31 - 1, 65535, 65535)


@dataclasses.dataclass(frozen=True)
class Target:
    """One GPU model with a CUDA version; `dataclasses.replace` makes variants.

    `cuda_version` stands for the driver, the runtime and the toolkit that XLA was built
    with: XLA captures less below 12.9 (design/graph_safety.md).
    """

    name: str
    device_name: str
    capability: tuple[int, int]
    num_sms: int
    fp32_lanes_per_sm: int
    shared_bytes_per_sm: int
    l2_bytes: int
    memory_bytes: int
    memory_bytes_per_s: int
    clock_ghz: float
    cuda_version: tuple[int, int] = (13, 0)

    def text(self) -> str:
        """A GpuTargetConfigProto in text form."""
        major, minor = self.capability
        version = ".".join(map(str, (*self.cuda_version, 0)))
        info = {
            "name": f'"{self.device_name}"',
            "threads_per_block_limit": _THREADS_PER_BLOCK,
            "threads_per_warp": _THREADS_PER_WARP,
            "threads_per_core_limit": _THREADS_PER_SM,
            "shared_memory_per_block": _STATIC_SHARED_BYTES,
            "shared_memory_per_block_optin": self.shared_bytes_per_sm
            - _RESERVED_SHARED_BYTES,
            "shared_memory_per_core": self.shared_bytes_per_sm,
            "registers_per_core_limit": _REGISTERS_PER_SM,
            "registers_per_block_limit": _REGISTERS_PER_SM,
            "block_dim_limit_x": _GRID_LIMIT[0],
            "block_dim_limit_y": _GRID_LIMIT[1],
            "block_dim_limit_z": _GRID_LIMIT[2],
            "core_count": self.num_sms,
            "fpus_per_core": self.fp32_lanes_per_sm,
            "l2_cache_size": self.l2_bytes,
            "device_memory_size": self.memory_bytes,
            "memory_bandwidth": self.memory_bytes_per_s,
            "clock_rate_ghz": self.clock_ghz,
            "cuda_compute_capability": f"{{ major: {major} minor: {minor} }}",
            "driver_version": f'"{version}"',
            "runtime_version": f'"{version}"',
            "compile_time_toolkit_version": f'"{version}"',
        }
        fields = "\n".join(f"  {field}: {value}" for field, value in info.items())
        return (
            f"gpu_device_info {{\n{fields}\n}}\n"
            'platform_name: "CUDA"\n'
            f'device_description_str: "{self.device_name}"\n'
        )


_KIB, _MIB, _GIB = 2**10, 2**20, 2**30

TARGETS = {
    target.name: target
    for target in (
        Target(
            name="a100",
            device_name="NVIDIA A100-SXM4-80GB",
            capability=(8, 0),
            num_sms=108,
            fp32_lanes_per_sm=64,
            shared_bytes_per_sm=164 * _KIB,
            l2_bytes=40 * _MIB,
            memory_bytes=79 * _GIB,
            memory_bytes_per_s=2_039_000_000_000,
            clock_ghz=1.41,
        ),
        Target(
            name="h100",
            device_name="NVIDIA H100 80GB HBM3",
            capability=(9, 0),
            num_sms=132,
            fp32_lanes_per_sm=128,
            shared_bytes_per_sm=228 * _KIB,
            l2_bytes=50 * _MIB,
            memory_bytes=79 * _GIB,
            memory_bytes_per_s=3_350_000_000_000,
            clock_ghz=1.98,
        ),
        Target(
            name="h200",
            device_name="NVIDIA H200",
            capability=(9, 0),
            num_sms=132,
            fp32_lanes_per_sm=128,
            shared_bytes_per_sm=228 * _KIB,
            l2_bytes=60 * _MIB,
            memory_bytes=139 * _GIB,
            memory_bytes_per_s=4_800_000_000_000,
            clock_ghz=1.98,
        ),
        Target(
            name="b200",
            device_name="NVIDIA B200",
            capability=(10, 0),
            num_sms=148,
            fp32_lanes_per_sm=128,
            shared_bytes_per_sm=228 * _KIB,
            l2_bytes=126 * _MIB,
            memory_bytes=178 * _GIB,
            memory_bytes_per_s=8_000_000_000_000,
            clock_ghz=1.965,
        ),
    )
}


def find_target(target: "str | Target | os.PathLike[str]") -> Target | str:
    """A named target, or the text of a GpuTargetConfigProto from a file.

    On a machine that has the GPU, XLA dumps its own with --xla_dump_to.
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, str) and target in TARGETS:
        return TARGETS[target]
    path = pathlib.Path(target)
    if path.is_file():
        return path.read_text()
    raise ValueError(
        f"graph safety: target must be one of {', '.join(sorted(TARGETS))}, a Target, "
        f"or the path of a GpuTargetConfigProto in text form; got {target!r}. "
        "XLA dumps that of its GPU as *.gpu_target_config.pbtxt (--xla_dump_to)."
    )


def cuda_version(target: Target | str) -> tuple[int, int]:
    """The oldest of driver, runtime and toolkit, which decides what is captured."""
    if isinstance(target, Target):
        return target.cuda_version
    fields = ("driver_version", "runtime_version", "compile_time_toolkit_version")
    versions = []
    for field in fields:
        found = re.search(rf'{field}: "(\d+)\.(\d+)', target)
        versions.append((int(found[1]), int(found[2])) if found else (0, 0))
    return min(versions)


def describe(target: Target | str) -> str:
    if isinstance(target, Target):
        name = target.name
    else:
        found = re.search(r'device_description_str: "([^"]*)"', target)
        name = found[1] if found else "target"
    return f"{name} (CUDA {'.'.join(map(str, cuda_version(target)))})"
