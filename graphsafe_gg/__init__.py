# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""CUDA-graph-safe grouped GEMM for Mixture-of-Experts layers in JAX."""

from graphsafe_gg._errors import GroupSizesError as GroupSizesError
from graphsafe_gg._runtime import check as check
from graphsafe_gg._runtime import stats as stats
from graphsafe_gg.api.explain import explain as explain
from graphsafe_gg.api.export import export_safety_checks as export_safety_checks
from graphsafe_gg.api.group_sizes import GroupSizes as GroupSizes
from graphsafe_gg.api.group_sizes import copy_group_sizes as copy_group_sizes
from graphsafe_gg.api.group_sizes import group_sizes_of as group_sizes_of
from graphsafe_gg.api.grouped_gemm import grouped_gemm as grouped_gemm
from graphsafe_gg.api.ragged_dot import ragged_dot as ragged_dot
from graphsafe_gg.api.ragged_dot import ragged_dot_general as ragged_dot_general
from graphsafe_gg.mlp import Permutation as Permutation
from graphsafe_gg.mlp import grouped_layernorm_mlp as grouped_layernorm_mlp
from graphsafe_gg.mlp import grouped_mlp as grouped_mlp
from graphsafe_gg.mlp import moe_mlp as moe_mlp
from graphsafe_gg.mlp import permute as permute
from graphsafe_gg.mlp import record_sizes as record_sizes
from graphsafe_gg.mlp import route as route
from graphsafe_gg.mlp import routed_mlp as routed_mlp
from graphsafe_gg.mlp import unpermute as unpermute

__version__ = "0.1.0"
