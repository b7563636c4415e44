# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The contraction over the rows of each group, as a call of its own."""

import numpy as np

from graphsafe_gg import _runtime
from graphsafe_gg.api import manual_axes, primitives, validation
from graphsafe_gg.api.call_site import call_site, default_name
from graphsafe_gg.api.mode import choose_mode
from graphsafe_gg.api.precision import check_precision


def weight_gradient(lhs, dout, group_sizes, *, preferred_element_type, precision):
    """out[i] = lhs[rows of i].T @ dout[rows of i]: lhs (m, k), dout (m, n), group_sizes
    (g,) -> (g, k, n)."""
    op = "ragged_dot"
    validation.check_dtypes(op, lhs, dout, group_sizes)
    check_precision(op, precision, lhs.dtype)
    out_dtype = validation.result_dtype(op, lhs, preferred_element_type)
    site = call_site(default_name(op, dout))
    _runtime.raise_recorded_errors(site % 2**64)
    lhs, dout, group_sizes = manual_axes.align(lhs, dout, group_sizes)
    return primitives.drhs_p.bind(
        lhs,
        dout,
        group_sizes,
        out_dtype=np.dtype(out_dtype),
        mode=choose_mode("auto"),
        site=site,
        optional=0,
        group_offset=-1,
        num_groups=group_sizes.shape[0],
    )
