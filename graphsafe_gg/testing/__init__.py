# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Tools to test code that uses grouped_gemm. The package itself never imports them."""

from graphsafe_gg.testing._deviceless import CompileError as CompileError
from graphsafe_gg.testing._deviceless import (
    CompilerMissingError as CompilerMissingError,
)
from graphsafe_gg.testing.compare import assert_bit_equal as assert_bit_equal
from graphsafe_gg.testing.compare import assert_close as assert_close
from graphsafe_gg.testing.compare import error_bound as error_bound
from graphsafe_gg.testing.graph_report import GraphReport as GraphReport
from graphsafe_gg.testing.graph_safety import assert_graph_safe as assert_graph_safe
from graphsafe_gg.testing.graph_safety import inspect_graph as inspect_graph
from graphsafe_gg.testing.memory import dirty_memory as dirty_memory
from graphsafe_gg.testing.patterns import empty_group_masks as empty_group_masks
from graphsafe_gg.testing.patterns import size_patterns as size_patterns
from graphsafe_gg.testing.reference import Truth as Truth
from graphsafe_gg.testing.reference import reference_dlhs as reference_dlhs
from graphsafe_gg.testing.reference import reference_drhs as reference_drhs
from graphsafe_gg.testing.reference import (
    reference_grouped_gemm as reference_grouped_gemm,
)
