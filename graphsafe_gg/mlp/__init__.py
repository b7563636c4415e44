# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Routing, permutation and MoE layers, in plain JAX around `grouped_gemm`."""

from graphsafe_gg.mlp.grouped_mlp import PRE_ACTIVATION as PRE_ACTIVATION
from graphsafe_gg.mlp.grouped_mlp import grouped_mlp as grouped_mlp
from graphsafe_gg.mlp.layernorm_mlp import (
    grouped_layernorm_mlp as grouped_layernorm_mlp,
)
from graphsafe_gg.mlp.moe_mlp import moe_mlp as moe_mlp
from graphsafe_gg.mlp.moe_mlp import routed_mlp as routed_mlp
from graphsafe_gg.mlp.permute import ROW_ORDER as ROW_ORDER
from graphsafe_gg.mlp.permute import Permutation as Permutation
from graphsafe_gg.mlp.permute import permute as permute
from graphsafe_gg.mlp.permute import unpermute as unpermute
from graphsafe_gg.mlp.recording import record_sizes as record_sizes
from graphsafe_gg.mlp.routing import route as route
