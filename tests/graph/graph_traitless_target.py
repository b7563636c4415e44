# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Registers, when imported, a device-mode name for a handler that lacks the trait."""

import jax

from graphsafe_gg import _ext

stages = _ext.registrations()[("graphsafe_gg_grouped_gemm_sync_v2", "CUDA")]
jax.ffi.register_ffi_target(
    "graphsafe_gg_grouped_gemm_device_v0", stages, platform="CUDA"
)
