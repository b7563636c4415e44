# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The only importer of the extension: registers its FFI targets with JAX."""

import functools
import importlib.util
import os
import warnings

import jax
from scipy.linalg import cython_blas

from graphsafe_gg import _config

if importlib.util.find_spec("graphsafe_gg._ext") is None:
    raise ImportError(
        "graphsafe_gg: the compiled extension must lie in the package's folder; got "
        f"none in {os.path.dirname(__file__)}. Start Python outside the checkout with "
        "the package installed, for example by `make install`."
    )
from graphsafe_gg import _ext


def _directories(package: str) -> list[str]:
    """Where pip's packages of CUDA 13 and 12 keep a library, found or not."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec and spec.submodule_search_locations) or ()
    folders = ("cu13/lib", f"{package}/lib")
    return [os.path.join(root, folder) for folder in folders for root in roots]


def _register() -> None:
    _ext.set_sgemm(cython_blas.__pyx_capi__["sgemm"])
    _ext.set_on_bad_sizes(_config.ON_BAD_SIZES)
    _ext.set_wait_deadline(_config.WAIT_DEADLINE_S)
    _ext.set_cublaslt_use(_config.CUBLASLT)
    _ext.set_cublaslt_directories(_directories("cublas"))
    if _config.NVTX and not _ext.enable_nvtx(_directories("nvtx")):
        warnings.warn(
            "graphsafe_gg: GG_NVTX=1 needs libnvtx3interop.so.1 or libnvToolsExt.so.1; "
            "neither was found, so there are no ranges. Install nvidia-nvtx.",
            stacklevel=2,
        )
    for (target, platform), stages in _ext.registrations().items():
        jax.ffi.register_ffi_target(target, stages, platform=platform)


_register()


def target_name(operation: str) -> str:
    version = 1 if operation.startswith("group_sizes_") else 2
    return f"graphsafe_gg_{operation}_v{version}"


def product_targets() -> list[str]:
    """Those with operands that a partitioner may split."""
    targets = {target for target, _ in _ext.registrations()}
    return sorted(target for target in targets if "_group_sizes_" not in target)


def partitioned(target: str) -> str:
    """The name of a product until XLA has partitioned it."""
    return target.replace("graphsafe_gg_", "graphsafe_gg_partitioned_", 1)


def target_names() -> list[str]:
    """Every name that a program may hold."""
    targets = {target for target, _ in _ext.registrations()}
    return sorted(targets | {partitioned(target) for target in product_targets()})


@functools.cache
def name_call_site(site: int, name: str) -> None:
    _ext.name_call_site(site, name)


build_info = _ext.build_info
device_stats = _ext.stats
take_size_errors = _ext.take_size_errors
set_cublaslt_use = _ext.set_cublaslt_use
raw_problem = _ext.raw_problem
raw_initialize = _ext.raw_initialize
raw_configs = _ext.raw_configs
raw_launch = _ext.raw_launch
raw_dlpack = _ext.raw_dlpack
RawSlot = _ext.RawSlot
