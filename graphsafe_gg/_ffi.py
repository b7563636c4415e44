# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The only importer of the extension: registers its FFI targets with JAX."""

import functools

import jax
from scipy.linalg import cython_blas

from graphsafe_gg import _config, _ext


def _register() -> None:
    _ext.set_sgemm(cython_blas.__pyx_capi__["sgemm"])
    _ext.set_on_bad_sizes(_config.ON_BAD_SIZES)
    _ext.set_wait_deadline(_config.WAIT_DEADLINE_S)
    for (target, platform), stages in _ext.registrations().items():
        jax.ffi.register_ffi_target(target, stages, platform=platform)


_register()


def target_name(operation: str) -> str:
    return f"graphsafe_gg_{operation}_v1"


@functools.cache
def name_call_site(site: int, name: str) -> None:
    _ext.name_call_site(site, name)


build_info = _ext.build_info
device_stats = _ext.stats
take_size_errors = _ext.take_size_errors
raw_problem = _ext.raw_problem
raw_initialize = _ext.raw_initialize
raw_launch = _ext.raw_launch
raw_dlpack = _ext.raw_dlpack
