# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Types of the compiled extension."""

from typing import Any, TypedDict

class _BuildInfo(TypedDict):
    version: str
    cuda_toolkit: str
    xla_ffi: str

class _SiteStats(TypedDict):
    executions: int
    eager_calls: int
    captured_calls: int
    host_waits: int
    host_wait_us: float
    host_wait_max_us: float
    fallbacks: dict[str, int]
    host_size_launches: dict[str, int]
    guards_tripped: int

class _DeviceStats(TypedDict):
    launches: int
    eager_copies: int
    captured_copies: int
    copies: int
    host_waits: int
    host_wait_us: float
    slots: int
    pinned_bytes: int
    cublaslt: str
    sites: dict[str, _SiteStats]

def registrations() -> dict[tuple[str, str], dict[str, Any]]: ...
def build_info() -> _BuildInfo: ...
def stats() -> dict[int, _DeviceStats]: ...
def take_size_errors(site: int | None) -> list[str]: ...
def set_on_bad_sizes(policy: str) -> None: ...
def set_wait_deadline(seconds: float) -> None: ...
def set_cublaslt_directories(directories: list[str]) -> None: ...
def set_cublaslt_use(use: str) -> None: ...
def enable_nvtx(directories: list[str]) -> bool: ...
def name_call_site(site: int, name: str) -> None: ...
def set_sgemm(sgemm: Any) -> None: ...

class RawProblem: ...

def raw_problem(
    *,
    is_drhs: bool,
    dtype: str,
    out_dtype: str,
    size_dtype: str,
    transpose_rhs: bool,
    has_bias: bool,
    num_layers: int,
    num_sizes: int,
    num_groups: int,
    m: int,
    k: int,
    n: int,
) -> RawProblem: ...
def raw_initialize(
    device: int, problem: RawProblem, config: str, site: int
) -> None: ...
def raw_configs(device: int, problem: RawProblem) -> list[str]: ...
def raw_launch(
    device: int,
    problem: RawProblem,
    lhs: int,
    rhs: int,
    group_sizes: int,
    out: int,
    bias: int,
    group_offset: tuple[int, int, str],
    layer: tuple[int, int, str],
    config: str,
    starts_early: bool,
    site: int,
    stream: int,
) -> None: ...

class RawSlot:
    def __init__(self, device: int, size_dtype: str, num_groups: int) -> None: ...
    def copy(self, group_sizes: int, stream: int) -> None: ...
    def is_done(self) -> bool: ...
    def wait(self, site: int) -> list[int]: ...

def raw_dlpack(
    array: object,
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, int], tuple[int, int]]: ...
