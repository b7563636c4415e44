# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What cuda_device.py and host_device.py take as arguments."""

import dataclasses

import numpy as np

# Element offsets of one checked row in a, b and out, and its number of terms.
CHECKED_ROW = np.dtype([(name, np.int64) for name in ("a", "b", "out", "count")])


@dataclasses.dataclass(frozen=True)
class ReadConfig:
    """How the plain read is laid out: vectors a thread has in flight, and the grid."""

    unroll: int
    blocks_per_sm: int
    threads: int


@dataclasses.dataclass(frozen=True)
class RowCheck:
    """Rows of a result that should be products of strided vectors with matrices.

    Element c of row i is the sum over j < rows["count"][i] of
    ``a[rows["a"][i] + j * a_stride] * b[rows["b"][i] + j * b_row_stride + c *
    b_column_stride]``; rows["out"] is where the row starts. All in elements.
    """

    rows: np.ndarray  # of CHECKED_ROW
    num_columns: int
    a_stride: int
    b_row_stride: int
    b_column_stride: int
