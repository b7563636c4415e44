# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels on a stream of the caller's, outside XLA."""

from graphsafe_gg.raw.device_array import DeviceArray as DeviceArray
from graphsafe_gg.raw.device_array import as_device_array as as_device_array
from graphsafe_gg.raw.products import drhs as drhs
from graphsafe_gg.raw.products import grouped_gemm as grouped_gemm
from graphsafe_gg.raw.products import grouped_gemm_configs as grouped_gemm_configs
from graphsafe_gg.raw.products import initialize_drhs as initialize_drhs
from graphsafe_gg.raw.products import (
    initialize_grouped_gemm as initialize_grouped_gemm,
)
from graphsafe_gg.raw.slot import Slot as Slot
from graphsafe_gg.raw.slot import copy_group_sizes as copy_group_sizes
